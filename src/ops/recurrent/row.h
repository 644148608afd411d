#pragma once

// A step of one sequence and its gradient, a vector of units at a time; slots lie one after the
// other, (S, H). For files of both widths of vectors (runtime/cpu/vec.h), so nothing may be
// included here but what those and the cell need.
#include <type_traits>

#include "mica/ops/recurrent/cell.h"
#include "mica/runtime/cpu/partial.h"
#include "mica/runtime/cpu/simd.h"

namespace mica::recurrent_row {

/// Pointers to the rows of a sequence; see RecurrentCell.
template <class T>
struct Cell {
  const T *x, *s, *c_before, *h_before;
  T *gates, *c, *h, *state;
};
/// See RecurrentCellGrad. C is what is computed in.
template <class T, class C>
struct CellGrad {
  const T *dy, *from_state;
  C *carry, *dc;
  const T *gates, *c, *c_before, *h_before;
  T* dgates;
};

template <class T, class C>
struct Functions {
  void (*lstm)(int64_t units, const Cell<T>& r);
  void (*gru)(int64_t units, const Cell<T>& r);
  void (*rnn)(int64_t units, bool relu, const Cell<T>& r);
  void (*lstm_grad)(int64_t units, const CellGrad<T, C>& r);
  void (*gru_grad)(int64_t units, const CellGrad<T, C>& r);
  void (*rnn_grad)(int64_t units, bool relu, const CellGrad<T, C>& r);
};

/// By vectors of 64 bytes, for processors with AVX-512 (`has_avx512`).
const Functions<float, float>& functions_avx512();

#if defined(__AVX512F__)
inline namespace avx512 {
#else
inline namespace avx2 {
#endif

using namespace recurrent_cell_math;
using simd::Vec;

/// Up to a vector of elements; zeros where there are fewer, and of null.
template <class C, class T>
Vec<C> load(const T* p, int64_t count) {
  if (!p) return Vec<C>(0);
  if constexpr (std::is_same_v<T, C>) {
    return simd::load_part(p, count, C(0));
  } else {
    Vec<C> x(0);
    for (int i = 0; i < Vec<C>::kWidth && i < count; ++i) x.v[i] = static_cast<C>(p[i]);
    return x;
  }
}
template <class C, class T>
void store(T* p, Vec<C> x, int64_t count) {
  if (!p) return;
  if constexpr (std::is_same_v<T, C>) {
    simd::store_part(x, p, count);
  } else {
    for (int i = 0; i < Vec<C>::kWidth && i < count; ++i) p[i] = static_cast<T>(x[i]);
  }
}

/// The gradient of the state after the step, at unit u.
template <class T, class C>
Vec<C> state_grad(const CellGrad<T, C>& r, int64_t u, int64_t count, bool with_dy = true) {
  Vec<C> sum = with_dy && r.dy ? load<C>(r.dy + u, count) : Vec<C>(0);
  if (r.carry) sum += load<C>(r.carry + u, count);
  if (r.from_state) sum += load<C>(r.from_state + u, count);
  return sum;
}

template <class T, class C>
struct Rows {
  using V = Vec<C>;

  static void lstm(int64_t units, const Cell<T>& r) {
    for (int64_t u = 0; u < units; u += V::kWidth) {
      const int64_t left = units - u;
      const auto slot = [&](int64_t k) {
        return load<C>(r.x + k * units + u, left) + load<C>(r.s + k * units + u, left);
      };
      const auto step =
          LstmStep<V>::forward(slot(0), slot(1), slot(2), slot(3), load<C>(r.c_before + u, left));
      if (r.gates) {
        store(r.gates + u, step.i, left);
        store(r.gates + units + u, step.f, left);
        store(r.gates + 2 * units + u, step.g, left);
        store(r.gates + 3 * units + u, step.o, left);
      }
      store(r.c + u, step.c, left);
      store(r.h + u, step.h, left);
      if (r.state) store(r.state + u, step.h, left);
    }
  }

  static void gru(int64_t units, const Cell<T>& r) {
    for (int64_t u = 0; u < units; u += V::kWidth) {
      const int64_t left = units - u;
      const auto slot = [&](int64_t k) {
        return load<C>(r.x + k * units + u, left) + load<C>(r.s + k * units + u, left);
      };
      const V q = slot(3);
      const auto step =
          GruStep<V>::forward(slot(0), slot(1), slot(2), q, load<C>(r.h_before + u, left));
      if (r.gates) {
        store(r.gates + u, step.r, left);
        store(r.gates + units + u, step.z, left);
        store(r.gates + 2 * units + u, step.n, left);
        store(r.gates + 3 * units + u, q, left);
      }
      store(r.h + u, step.h, left);
      if (r.state) store(r.state + u, step.h, left);
    }
  }

  static void rnn(int64_t units, bool relu, const Cell<T>& r) {
    for (int64_t u = 0; u < units; u += V::kWidth) {
      const int64_t left = units - u;
      const V sum = load<C>(r.x + u, left) + load<C>(r.s + u, left);
      // NaN stays: no comparison with it holds.
      const V h = relu ? simd::select(sum <= V(0), V(0), sum) : tanh(sum);
      if (r.gates) store(r.gates + u, h, left);
      store(r.h + u, h, left);
      if (r.state) store(r.state + u, h, left);
    }
  }

  static void lstm_grad(int64_t units, const CellGrad<T, C>& r) {
    for (int64_t u = 0; u < units; u += V::kWidth) {
      const int64_t left = units - u;
      const auto slot = [&](int64_t k) { return load<C>(r.gates + k * units + u, left); };
      const auto g = LstmGrad<V>::backward(slot(0), slot(1), slot(2), slot(3),
                                           load<C>(r.c + u, left), load<C>(r.c_before + u, left),
                                           state_grad(r, u, left), load<C>(r.dc + u, left));
      store(r.dgates + u, g.i, left);
      store(r.dgates + units + u, g.f, left);
      store(r.dgates + 2 * units + u, g.g, left);
      store(r.dgates + 3 * units + u, g.o, left);
      store(r.dc + u, g.c, left);
      if (r.carry) store(r.carry + u, V(0), left);
    }
  }

  static void gru_grad(int64_t units, const CellGrad<T, C>& r) {
    for (int64_t u = 0; u < units; u += V::kWidth) {
      const int64_t left = units - u;
      const auto slot = [&](int64_t k) { return load<C>(r.gates + k * units + u, left); };
      const auto g = GruGrad<V>::backward(slot(0), slot(1), slot(2), slot(3),
                                          load<C>(r.h_before + u, left), state_grad(r, u, left));
      store(r.dgates + u, g.r, left);
      store(r.dgates + units + u, g.z, left);
      store(r.dgates + 2 * units + u, g.n, left);
      store(r.dgates + 3 * units + u, g.q, left);
      store(r.carry + u, g.h, left);
    }
  }

  static void rnn_grad(int64_t units, bool relu, const CellGrad<T, C>& r) {
    for (int64_t u = 0; u < units; u += V::kWidth) {
      const int64_t left = units - u;
      const V h = load<C>(r.gates + u, left);
      const V dh = state_grad(r, u, left);
      store(r.dgates + u, relu ? simd::select(h > V(0), dh, V(0)) : dh * (V(1) - h * h), left);
      store(r.carry + u, V(0), left);
    }
  }
};

template <class T, class C>
constexpr Functions<T, C> functions() {
  using R = Rows<T, C>;
  return {R::lstm, R::gru, R::rnn, R::lstm_grad, R::gru_grad, R::rnn_grad};
}

}  // inline namespace
}  // namespace mica::recurrent_row
