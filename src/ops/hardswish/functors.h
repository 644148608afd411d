#pragma once

#include "mica/ops/elementwise/math.h"

namespace mica::functor {

using namespace math;

struct Hardswish {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    const T inside = select(x < T(3), x * (x + T(3)) / T(6), x);
    return select(x <= T(-3), T(0), inside);
  }
};

struct HardswishGrad {
  template <class T>
  MICA_PORTABLE T operator()(T dy, T x) const {
    const T inside = select(x < T(3), dy * (x / T(3) + T(0.5)), dy);
    return select(x <= T(-3), T(0), inside);
  }
};

}  // namespace mica::functor
