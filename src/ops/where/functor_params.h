#pragma once

#include "mica/runtime/portable.h"

namespace mica {
namespace math {

inline constexpr double kInfinity = __builtin_bit_cast(double, 0x7FF0000000000000ULL);

}  // namespace math

/// The op's parameters are its functor; the bounds are infinite where they are not given.
struct ClampParams {
  double low = -math::kInfinity;
  double high = math::kInfinity;
  bool open = false;  ///< no gradient passes at the bounds themselves

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("low", self.low);
    f("high", self.high);
    f("open", self.open);
  }
  template <class T>
  MICA_PORTABLE T operator()(T x) const;  ///< in functors.h
};

}  // namespace mica
