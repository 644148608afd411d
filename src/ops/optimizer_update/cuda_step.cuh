#pragma once

// What the kernels that take an optimizer's step share.
#include "mica/op/kernel.h"
#include "mica/ops/optimizer_update/functors.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/programmatic_launch.cuh"
#include "mica/runtime/cuda/types.cuh"

namespace mica::update {

using namespace mica::cuda;

inline constexpr size_t kFirst = 2;  ///< inputs before the lists
inline constexpr int kVectors = 2;   ///< of a thread, 16 bytes each

template <class T, int kThreads>
inline constexpr int64_t kChunk = int64_t{kThreads} * kVectors * kVec16<T>;  ///< of a block

/// A parameter whose gradient is given.
template <class T, int kStates>
struct Entry {
  T* param;
  const T* grad;
  T* states[kStates + 1];  ///< null where there is no state
  int64_t n;
};

/// Parameter k of a call's lists.
template <class T, int kStates>
Entry<T, kStates> entry_of(const Call& c, size_t count, size_t k) {
  const Arg* at = &c.in[kFirst + k];
  Entry<T, kStates> e = {
      .param = at[0].as<T>(), .grad = at[count].as<const T>(), .states = {}, .n = at->numel()};
  for (size_t s = 0; s != kStates; ++s) e.states[s] = at[(2 + s) * count].template as<T>();
  return e;
}

/// The numbers in device memory that a step depends on.
struct Scalars {
  const void* scalar;
  const int64_t* step;
  bool wide;  ///< the scalar is f64

  explicit Scalars(const Call& c)
      : scalar(c.in[0].data),
        step(c.in[1].as<const int64_t>()),
        wide(c.in[0].dtype() == DType::f64) {}

  struct Values {
    double scalar;
    int64_t step;
  };
  /// Before a kernel's other loads, behind which these would wait: one thread makes the constants
  /// of the formula, powers among them, from what it gives.
  __device__ Values load() const {
    if (threadIdx.x != 0) return {};
    const double value = !scalar ? 0
                         : wide  ? *static_cast<const double*>(scalar)
                                 : static_cast<double>(*static_cast<const float*>(scalar));
    return {value, step ? *step : 0};
  }
};

/// The first of `count` that ends after `block`.
__device__ inline int owner_of(unsigned block, const unsigned* end, int count) {
  int k = 0;
  for (int last = count - 1; k < last;) {
    const int middle = (k + last) / 2;
    if (block < end[middle]) {
      last = middle;
    } else {
      k = middle + 1;
    }
  }
  return k;
}

/// Takes the step on one chunk of a parameter. `make_factors()` gives the constants of the formula
/// once the loads are under way.
template <class Step, class T, int kThreads, class F>
__device__ void step_chunk(const Entry<T, Step::kStates>& e, unsigned chunk,
                           const F& make_factors) {
  using C = Compute<T>;
  constexpr int kV = kVec16<T>;
  constexpr int kStates = Step::kStates;
  bool aligned = is_aligned(e.param, 16) && is_aligned(e.grad, 16);
#pragma unroll
  for (int s = 0; s < kStates; ++s) aligned = aligned && is_aligned(e.states[s], 16);
  const auto read = [&](const T* from, int64_t i) {
    if (aligned && i + kV <= e.n) return load_vec<kV>(from + i);
    Vec<T, kV> x{};
#pragma unroll
    for (int j = 0; j < kV; ++j)
      if (i + j < e.n) x.v[j] = from[i + j];
    return x;
  };
  const auto write = [&](T* to, int64_t i, const Vec<T, kV>& x) {
    if (aligned && i + kV <= e.n) return store_vec<kV>(to + i, x);
#pragma unroll
    for (int j = 0; j < kV; ++j)
      if (i + j < e.n) to[i + j] = x.v[j];
  };
  const auto place = [&](int v) {
    return chunk * kChunk<T, kThreads> + (v * kThreads + static_cast<int64_t>(threadIdx.x)) * kV;
  };
  Vec<T, kV> param[kVectors], grad[kVectors], state[kVectors][kStates + 1];
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if constexpr (Step::kReads) param[v] = read(e.param, place(v));
    grad[v] = read(e.grad, place(v));
#pragma unroll
    for (int s = 0; s < kStates; ++s) state[v][s] = read(e.states[s], place(v));
  }
  const typename Step::template Factors<C>& factors = make_factors();
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
#pragma unroll
    for (int j = 0; j < kV; ++j) {
      C x = 0;
      if constexpr (Step::kReads) x = to_compute(param[v].v[j]);
      C states[kStates + 1];
#pragma unroll
      for (int s = 0; s < kStates; ++s) states[s] = to_compute(state[v][s].v[j]);
      Step::apply(factors, x, to_compute(grad[v].v[j]), states);
      param[v].v[j] = convert<T>(x);
#pragma unroll
      for (int s = 0; s < kStates; ++s) state[v][s].v[j] = convert<T>(states[s]);
    }
    write(e.param, place(v), param[v]);
#pragma unroll
    for (int s = 0; s < kStates; ++s) write(e.states[s], place(v), state[v][s]);
  }
}

}  // namespace mica::update
