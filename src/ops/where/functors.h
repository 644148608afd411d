#pragma once

#include "mica/ops/elementwise/math.h"

namespace mica {
namespace math {

inline constexpr double kInfinity = __builtin_bit_cast(double, 0x7FF0000000000000ULL);

}  // namespace math

/// The op's parameters are its functor; the bounds are infinite where they are not given.
struct ClampParams {
  double low = -math::kInfinity;
  double high = math::kInfinity;

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

}  // namespace mica
