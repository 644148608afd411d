#pragma once

// What one unit computes at one step, for single values on host and device and for vectors.
#include "mica/ops/elementwise/math.h"

namespace mica::recurrent_cell_math {

using namespace mica::math;

template <class T>
MICA_PORTABLE T logistic(T x) {
  return T(1) / (T(1) + exp(-x));
}

template <class T>
struct LstmStep {
  T i, f, g, o, c, h;

  /// From the slots before their functions and the cell before.
  MICA_PORTABLE static LstmStep forward(T i, T f, T g, T o, T c_before) {
    LstmStep s;
    s.i = logistic(i);
    s.f = logistic(f);
    s.g = tanh(g);
    s.o = logistic(o);
    s.c = s.f * c_before + s.i * s.g;
    s.h = s.o * tanh(s.c);
    return s;
  }
};

/// The gradients of the slots before their functions, and of the cell before.
template <class T>
struct LstmGrad {
  T i, f, g, o, c;

  MICA_PORTABLE static LstmGrad backward(T i, T f, T g, T o, T c, T c_before, T dh, T dc) {
    const T t = tanh(c);
    const T d = dc + dh * o * (T(1) - t * t);
    return {d * g * i * (T(1) - i), d * c_before * f * (T(1) - f), d * i * (T(1) - g * g),
            dh * t * o * (T(1) - o), d * f};
  }
};

template <class T>
struct GruStep {
  T r, z, n, h;

  /// n and q are the input's and the state's parts of n's sum.
  MICA_PORTABLE static GruStep forward(T r, T z, T n, T q, T h_before) {
    GruStep s;
    s.r = logistic(r);
    s.z = logistic(z);
    s.n = tanh(n + s.r * q);
    s.h = s.n + s.z * (h_before - s.n);
    return s;
  }
};

template <class T>
struct GruGrad {
  T r, z, n, q, h;  ///< h: what reaches the state before without a product

  MICA_PORTABLE static GruGrad backward(T r, T z, T n, T q, T h_before, T dh) {
    const T dn = dh * (T(1) - z) * (T(1) - n * n);
    return {dn * q * r * (T(1) - r), dh * (h_before - n) * z * (T(1) - z), dn, dn * r, dh * z};
  }
};

}  // namespace mica::recurrent_cell_math
