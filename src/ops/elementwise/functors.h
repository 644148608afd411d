#pragma once

// One functor per function, a template over the value type. The CPU loops and the CUDA kernels use
// the same functor; the header has no includes but the one below, so that run-time compilation can
// take it.
#include "mica/runtime/portable.h"

namespace mica::functor {

struct Add {
  template <class T>
  MICA_PORTABLE T operator()(T a, T b) const {
    return a + b;
  }
};

struct Sub {
  template <class T>
  MICA_PORTABLE T operator()(T a, T b) const {
    return a - b;
  }
};

struct Mul {
  template <class T>
  MICA_PORTABLE T operator()(T a, T b) const {
    return a * b;
  }
};

struct Div {
  template <class T>
  MICA_PORTABLE T operator()(T a, T b) const {
    return a / b;
  }
};

struct Neg {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return -x;
  }
};

struct Relu {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return x < T(0) ? T(0) : x;  // keeps NaN
  }
};

struct ReluGrad {
  template <class T>
  MICA_PORTABLE T operator()(T dy, T y) const {
    return y > T(0) ? dy : T(0);
  }
};

}  // namespace mica::functor
