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

/// Whether parameters of T have masters, and their states more bits than they.
template <class Step, class T>
inline constexpr bool kMaster = Step::kMasters && is_half<T>;
/// What a parameter has besides its gradient: states, and a master after them.
template <class Step, class T>
inline constexpr int kKept = Step::kStates + kMaster<Step, T>;

/// A parameter whose gradient is given.
template <class T, int kKept>
struct Entry {
  T* param;
  const T* grad;
  Compute<T>* kept[kKept + 1];  ///< null where there is nothing
  int64_t n;
};

/// Parameter k of a call's lists.
template <class T, int kKept>
Entry<T, kKept> entry_of(const Call& c, size_t count, size_t k) {
  const Arg* at = &c.in[kFirst + k];
  Entry<T, kKept> e = {
      .param = at[0].as<T>(), .grad = at[count].as<const T>(), .kept = {}, .n = at->numel()};
  for (size_t s = 0; s != kKept; ++s) e.kept[s] = at[(2 + s) * count].template as<Compute<T>>();
  return e;
}

/// The numbers in device memory that a step depends on.
struct Scalars {
  const void* numbers;
  const int64_t* step;
  bool wide;  ///< the numbers are f64

  explicit Scalars(const Call& c)
      : numbers(c.in[0].data),
        step(c.in[1].as<const int64_t>()),
        wide(c.in[0].dtype() == DType::f64) {}

  template <int kNumbers>
  struct Values {
    double numbers[kNumbers];
    int64_t step;
    bool skips;  ///< the step is left out

    /// The constants of the formula.
    template <class Step, class C, class Params>
    __device__ typename Step::template Factors<C> factors(const Params& params) const {
      return Step::template factors<C>(params, numbers, step);
    }
  };
  /// Before a kernel's other loads, behind which these would wait: one thread makes the constants
  /// of the formula, powers among them, from what it gives.
  template <int kNumbers>
  __device__ Values<kNumbers> load() const {
    Values<kNumbers> values{};
    if (threadIdx.x != 0) return values;
#pragma unroll
    for (int i = 0; i < kNumbers; ++i)
      values.numbers[i] = !numbers ? 0
                          : wide   ? static_cast<const double*>(numbers)[i]
                                   : static_cast<double>(static_cast<const float*>(numbers)[i]);
    values.step = step ? *step : 0;
    values.skips = step && values.step == 0;
    return values;
  }
};

/// What the threads of a block share of a step.
template <class Step, class C>
struct Shared {
  typename Step::template Factors<C> factors;
  bool skips;
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

/// Takes the step on one chunk of a parameter. `make_shared()` gives the constants of the formula
/// once the loads are under way.
template <class Step, class T, int kThreads, class F>
__device__ void step_chunk(const Entry<T, kKept<Step, T>>& e, unsigned chunk,
                           const F& make_shared) {
  using C = Compute<T>;
  constexpr int kV = kVec16<T>;
  constexpr int kStates = Step::kStates;
  constexpr int kAll = kKept<Step, T>;
  constexpr int kPart = kVec16<C>;  // of what is kept; a vector of halves has two of them
  bool aligned = is_aligned(e.param, 16) && is_aligned(e.grad, 16);
#pragma unroll
  for (int s = 0; s < kAll; ++s) aligned = aligned && is_aligned(e.kept[s], 16);
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
  const auto read_kept = [&](const C* from, int64_t i, C(&to)[kV]) {
    if (aligned && i + kV <= e.n) {
#pragma unroll
      for (int j = 0; j < kV; j += kPart) {
        const Vec<C, kPart> x = load_vec<kPart>(from + i + j);
#pragma unroll
        for (int k = 0; k < kPart; ++k) to[j + k] = x.v[k];
      }
      return;
    }
#pragma unroll
    for (int j = 0; j < kV; ++j) to[j] = i + j < e.n ? from[i + j] : C(0);
  };
  const auto write_kept = [&](C* to, int64_t i, const C(&from)[kV]) {
    if (aligned && i + kV <= e.n) {
#pragma unroll
      for (int j = 0; j < kV; j += kPart) {
        Vec<C, kPart> x;
#pragma unroll
        for (int k = 0; k < kPart; ++k) x.v[k] = from[j + k];
        store_vec<kPart>(to + i + j, x);
      }
      return;
    }
#pragma unroll
    for (int j = 0; j < kV; ++j)
      if (i + j < e.n) to[i + j] = from[j];
  };
  const auto place = [&](int v) {
    return chunk * kChunk<T, kThreads> + (v * kThreads + static_cast<int64_t>(threadIdx.x)) * kV;
  };
  Vec<T, kV> param[kVectors], grad[kVectors];
  C kept[kVectors][kAll + 1][kV];
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    if constexpr (Step::kReads) param[v] = read(e.param, place(v));
    grad[v] = read(e.grad, place(v));
#pragma unroll
    for (int s = 0; s < kAll; ++s) read_kept(e.kept[s], place(v), kept[v][s]);
  }
  const Shared<Step, C>& shared = make_shared();
  if (shared.skips) return;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
#pragma unroll
    for (int j = 0; j < kV; ++j) {
      C x = 0;
      if constexpr (Step::kReads) x = to_compute(param[v].v[j]);
      // An element that is not its master rounded was written to, and goes before it.
      if constexpr (kMaster<Step, T>) {
        const C master = kept[v][kStates][j];
        x = to_compute(convert<T>(master)) == x ? master : x;
      }
      C states[kStates + 1];
#pragma unroll
      for (int s = 0; s < kStates; ++s) states[s] = kept[v][s][j];
      Step::apply(shared.factors, x, to_compute(grad[v].v[j]), states);
      param[v].v[j] = convert<T>(x);
      if constexpr (kMaster<Step, T>) kept[v][kStates][j] = x;
#pragma unroll
      for (int s = 0; s < kStates; ++s) kept[v][s][j] = states[s];
    }
    write(e.param, place(v), param[v]);
#pragma unroll
    for (int s = 0; s < kAll; ++s) write_kept(e.kept[s], place(v), kept[v][s]);
  }
}

}  // namespace mica::update
