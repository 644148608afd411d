#pragma once

#include <limits>

#include "mica/core/tensor.h"
#include "mica/op/params.h"
#include "mica/ops/elementwise/math.h"

namespace mica {

/// a where the condition (bool) holds, else b; all broadcast, a and b promote.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& a, double b);
Tensor where(const Tensor& condition, double a, const Tensor& b);

/// The op's parameters are its functor.
struct ClampParams {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("low", self.low);
    f("high", self.high);
  }
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    using math::select;
    if constexpr (math::kIsInteger<T>) {
      // The bounds as doubles: one may lie past the integers' range.
      const T up = static_cast<double>(x) < low ? static_cast<T>(low) : x;
      return static_cast<double>(up) > high ? static_cast<T>(high) : up;
    } else {
      const T up = select(x < T(low), T(low), x);  // keeps NaN
      return select(up > T(high), T(high), up);
    }
  }
};

/// x between two bounds (high wins if they cross); integers have whole bounds. The gradient passes
/// where low <= x <= high.
Tensor clamp(const Tensor& x, const ClampParams& params);
Tensor clamp(const Tensor& x, double low, double high);
Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high);

}  // namespace mica
