#pragma once

#include "mica/core/tensor.h"
#include "mica/runtime/portable.h"

namespace mica {

/// x * clamp(x + 3, 0, 6) / 6.
Tensor hardswish(const Tensor& x);

namespace functor {

struct Hardswish {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    if (x <= T(-3)) return T(0);
    return x < T(3) ? x * (x + T(3)) / T(6) : x;
  }
};

struct HardswishGrad {
  template <class T>
  MICA_PORTABLE T operator()(T dy, T x) const {
    if (x <= T(-3)) return T(0);
    return x < T(3) ? dy * (x / T(3) + T(0.5)) : dy;
  }
};

}  // namespace functor
}  // namespace mica
