#pragma once

// Losses of single elements that are kernels of their own.
#include "mica/ops/elementwise/math.h"

namespace mica::functor {

using namespace math;

/// -(t log(x) + (1 - t) log(1 - x)) with logarithms of at least -100.
struct BinaryCrossEntropy {
  template <class T>
  MICA_PORTABLE T operator()(T x, T t) const {
    const T yes = log(x);
    const T no = log1p(-x);
    return (t - T(1)) * select(no < T(-100), T(-100), no) - t * select(yes < T(-100), T(-100), yes);
  }
};

/// max(x, 0) - x t + log(1 + exp(-|x|)).
struct BinaryCrossEntropyWithLogits {
  template <class T>
  MICA_PORTABLE T operator()(T x, T t) const {
    return select(x > T(0), x, T(0)) - x * t + log1p(exp(-abs(x)));
  }
};

}  // namespace mica::functor
