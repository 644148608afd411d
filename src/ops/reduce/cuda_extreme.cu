#include "mica/ops/reduce/cuda_engine.cuh"
#include "mica/ops/reduce/reduce.h"

// Largest and smallest values, where they are, and norms.
namespace mica {
namespace {

using namespace mica::cuda;

/// Turns "smallest" and "largest size" into "largest": one set of kernels serves all. Works on the
/// sign of floats and on all bits of integers, so it is exact.
struct Ranking {
  uint32_t keep = ~0U;
  uint32_t flip = 0;

  static Ranking of(bool smallest, bool sizes = false) {
    constexpr uint32_t kSign = 0x80000000U;
    return {.keep = sizes ? ~kSign : ~0U, .flip = smallest ? kSign : 0};
  }
  __device__ float rank(float x) const {
    return __uint_as_float((__float_as_uint(x) & keep) ^ flip);
  }
  __device__ double rank(double x) const {
    const auto high = static_cast<uint32_t>(__double2hiint(x));
    return __hiloint2double(static_cast<int>((high & keep) ^ flip), __double2loint(x));
  }
  __device__ int64_t rank(int64_t x) const { return flip != 0 ? ~x : x; }
  template <class T>
  __device__ T value(T rank_of_value) const {
    return Ranking{.flip = flip}.rank(rank_of_value);
  }
};

template <class T>
__device__ T lowest() {
  if constexpr (std::is_floating_point_v<T>) return -std::numeric_limits<T>::infinity();
  return std::numeric_limits<T>::lowest();
}

/// The larger one; NaN wins.
__device__ float winner(float best, float x) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(best), "f"(x));
  return y;
}
template <class T>
__device__ T winner(T best, T x) {
  const T better = x > best ? x : best;
  return x != x ? x : better;
}

template <class S>
struct Extreme {
  using Source = S;
  using Value = typename S::Value;
  using Acc = Value;
  static constexpr bool kFirst = false;
  S source;
  Ranking ranking;

  __device__ Acc identity() const { return lowest<Value>(); }
  template <int N>
  __device__ void take(Acc& acc, const Value (&x)[N], int64_t, Value) const {
#pragma unroll
    for (int e = 0; e < N; ++e) acc = winner(acc, ranking.rank(x[e]));
  }
  __device__ void merge(Acc& a, const Acc& b) const { a = winner(a, b); }
  __device__ void put(void* out, int64_t at, Acc acc) const {
    source.store(out, at, ranking.value(acc));
  }
};

/// The position of the first of the best values.
template <class S>
struct Position {
  using Source = S;
  using Value = typename S::Value;
  struct Acc {
    int64_t index;  ///< negative: nothing yet
    Value rank;
  };
  static constexpr bool kFirst = false;
  S source;
  Ranking ranking;

  __device__ Acc identity() const { return {-1, lowest<Value>()}; }
  /// The best of the elements is found first; where it lies is asked only if it is the best so far.
  template <int N>
  __device__ void take(Acc& acc, const Value (&x)[N], int64_t index, Value) const {
    Value best = ranking.rank(x[0]);
#pragma unroll
    for (int e = 1; e < N; ++e) best = winner(best, ranking.rank(x[e]));
    if (acc.index >= 0 && !replaces(best, acc.rank)) return;
    int first = N - 1;
#pragma unroll
    for (int e = N - 2; e >= 0; --e) {
      const Value here = ranking.rank(x[e]);
      if (here == best || (here != here && best != best)) first = e;
    }
    acc = {index + first, best};
  }
  __device__ void merge(Acc& a, const Acc& b) const {
    if (b.index < 0) return;
    const bool equal = !replaces(b.rank, a.rank) && !replaces(a.rank, b.rank);
    if (a.index < 0 || replaces(b.rank, a.rank) || (equal && b.index < a.index)) a = b;
  }
  __device__ void put(void* out, int64_t at, const Acc& acc) const {
    static_cast<int64_t*>(out)[at] = acc.index;
  }

 private:
  __device__ static bool replaces(Value x, Value best) {
    return x > best || (x != x && best == best);
  }
};

/// Sums of a power of |x|, in double: a root may double their error.
template <class S>
struct PowerSum {
  using Source = S;
  using Value = typename S::Value;
  using Acc = double;
  static constexpr bool kFirst = false;
  S source;
  double p;

  __device__ Acc identity() const { return 0; }
  template <int N>
  __device__ void take(Acc& acc, const Value (&x)[N], int64_t, Value) const {
    if (p == 2) {
#pragma unroll
      for (int e = 0; e < N; ++e) acc = fma(double{x[e]}, double{x[e]}, acc);
    } else if (p == 1) {
#pragma unroll
      for (int e = 0; e < N; ++e) acc += double{fabs(x[e])};
    } else if (p == 0) {
#pragma unroll
      for (int e = 0; e < N; ++e) acc += x[e] != 0 ? 1 : 0;
    } else {
#pragma unroll 1
      for (int e = 0; e < N; ++e) acc += pow(double{fabs(x[e])}, p);
    }
  }
  __device__ void merge(Acc& a, const Acc& b) const { a += b; }
  __device__ void put(void* out, int64_t at, Acc acc) const {
    double norm = acc;
    if (p == 2) {
      norm = sqrt(acc);
    } else if (p != 0 && p != 1) {
      norm = pow(acc, 1 / p);
    }
    source.store(out, at, static_cast<Value>(norm));
  }
};

std::shared_ptr<ReducePlan> prepare_extreme(const ReduceParams& p, const Specs& s) {
  return plan_reduction(s.in[0], p.axes, sizeof(double), is_floating(s.in[0].dtype));
}

template <bool smallest>
void run_extreme(const ReduceParams&, const ReducePlan& plan, const Call& c) {
  with_ordered_source(c.in[0].dtype(), [&](auto source) {
    reduce(plan, Extreme<decltype(source)>{source, Ranking::of(smallest)}, c);
  });
}

std::shared_ptr<ReducePlan> prepare_position(const ArgmaxParams& p, const Specs& s) {
  return plan_reduction(s.in[0], Dims{p.axis}, sizeof(Position<Typed<double>>::Acc),
                        is_floating(s.in[0].dtype));
}

template <bool smallest>
void run_position(const ArgmaxParams&, const ReducePlan& plan, const Call& c) {
  with_ordered_source(c.in[0].dtype(), [&](auto source) {
    reduce(plan, Position<decltype(source)>{source, Ranking::of(smallest)}, c);
  });
}

std::shared_ptr<ReducePlan> prepare_norm(const NormParams& p, const Specs& s) {
  return plan_reduction(s.in[0], p.axes, sizeof(double), true);
}

void run_norm(const NormParams& p, const ReducePlan& plan, const Call& c) {
  with_float_source(c.in[0].dtype(), [&](auto source) {
    using Source = decltype(source);
    if (std::isinf(p.p)) {
      reduce(plan, Extreme<Source>{source, Ranking::of(p.p < 0, true)}, c);
    } else {
      reduce(plan, PowerSum<Source>{source, p.p}, c);
    }
  });
}

}  // namespace

KernelList max_cuda_kernels() {
  return {kernel<supports_all<ReduceParams>, prepare_extreme, run_extreme<false>>("tree")};
}
KernelList min_cuda_kernels() {
  return {kernel<supports_all<ReduceParams>, prepare_extreme, run_extreme<true>>("tree")};
}
KernelList argmax_cuda_kernels() {
  return {kernel<supports_all<ArgmaxParams>, prepare_position, run_position<false>>("tree")};
}
KernelList argmin_cuda_kernels() {
  return {kernel<supports_all<ArgmaxParams>, prepare_position, run_position<true>>("tree")};
}
KernelList norm_cuda_kernels() {
  return {kernel<supports_all<NormParams>, prepare_norm, run_norm>("tree")};
}

}  // namespace mica
