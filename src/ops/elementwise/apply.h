#pragma once

// A functor over runs of elements. Files compiled for wider vectors include this too: everything
// here is a template over the vector type or the functor's operands, so that each width has its
// own.
#include <cstddef>
#include <utility>

#include "mica/runtime/cpu/simd.h"

namespace mica::elementwise {

/// Where results are written: to a place that is read again soon, or past the caches.
enum class Store { cached, streamed };

/// f of n elements of each operand, dense, for a functor whose type is forgotten.
template <class C, class Result>
using Apply = void (*)(const void* f, const C* const* in, int64_t n, Result* out, Store store);

template <class F, class C, size_t... I>
auto apply(const F& f, const C* x, std::index_sequence<I...>) {
  return f(x[I]...);
}
/// f of one element (or vector) of each operand.
template <size_t N, class F, class C>
auto apply(const F& f, const C (&x)[N]) {
  return apply(f, x, std::make_index_sequence<N>());
}

/// out[i] = f(in[0][i], …), by vectors. `stream_fence` must follow where results are streamed.
template <size_t N, class F, class C, class Vec = simd::Vec<C>>
void apply_vectors(F f, const C* const* in, int64_t n, C* out, Store store = Store::cached) {
  const auto at = [&](int64_t i) {
    Vec x[N];
    for (size_t k = 0; k < N; ++k) x[k] = Vec::load(in[k] + i);
    return apply<N>(f, x);
  };
  const auto part = [&](int64_t i, int64_t count) {
    const size_t bytes = static_cast<size_t>(count) * sizeof(C);
    Vec x[N];
    for (size_t k = 0; k < N; ++k) {
      x[k] = Vec(in[k][i]);
      std::memcpy(&x[k].v, in[k] + i, bytes);
    }
    const Vec y = apply<N>(f, x);
    std::memcpy(out + i, &y.v, bytes);
  };
  int64_t i = 0;
  if (store == Store::streamed) {
    const size_t to_bound = (0 - reinterpret_cast<uintptr_t>(out)) % sizeof(Vec) / sizeof(C);
    i = static_cast<int64_t>(to_bound) < n ? static_cast<int64_t>(to_bound) : n;
    if (i > 0) part(0, i);
    for (; i + Vec::kWidth <= n; i += Vec::kWidth) simd::stream(at(i), out + i);
  } else {
    for (; i + Vec::kWidth <= n; i += Vec::kWidth) at(i).store(out + i);
  }
  if (i < n) part(i, n - i);
}

}  // namespace mica::elementwise
