#include <algorithm>

#include "mica/ops/reduce/cuda_engine.cuh"
#include "mica/ops/reduce/reduce.h"

namespace mica {
namespace {

using namespace mica::cuda;

/// Sums of the distances from the first element of a result, and of their squares. In double, so
/// that a first element far from the others leaves enough of their digits.
template <class S>
struct Moments {
  using Source = S;
  using Value = typename S::Value;
  struct Acc {
    double first, second;
  };
  static constexpr bool kFirst = true;
  S source;
  double n;
  double degrees_of_freedom;
  bool root;

  __device__ Acc identity() const { return {0, 0}; }
  template <int N>
  __device__ void take(Acc& acc, const Value (&x)[N], int64_t, Value about) const {
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const double d = double{x[e]} - double{about};
      acc.first += d;
      acc.second = fma(d, d, acc.second);
    }
  }
  __device__ void merge(Acc& a, const Acc& b) const {
    a.first += b.first;
    a.second += b.second;
  }
  __device__ void put(void* out, int64_t at, const Acc& acc) const {
    const double squares = fma(-acc.first, acc.first / n, acc.second);
    const double variance = (squares < 0 ? 0 : squares) / degrees_of_freedom;
    source.store(out, at, static_cast<Value>(root ? sqrt(variance) : variance));
  }
};

/// The largest element, and the sum of exp(x - shift_of(largest)).
template <class S>
struct LogSumExp {
  using Source = S;
  using Value = typename S::Value;
  struct Acc {
    Value largest, sum;
  };
  static constexpr bool kFirst = false;
  S source;

  __device__ Acc identity() const { return {-std::numeric_limits<Value>::infinity(), 0}; }
  template <int N>
  __device__ void take(Acc& acc, const Value (&x)[N], int64_t, Value) const {
    Value largest = acc.largest;
#pragma unroll
    for (int e = 0; e < N; ++e) largest = fmax(largest, x[e]);
    const Value shift = shift_of(largest);
    if (largest > acc.largest) acc.sum *= exp(acc.largest - shift);
#pragma unroll
    for (int e = 0; e < N; ++e) acc.sum += exp(x[e] - shift);
    acc.largest = largest;
  }
  __device__ void merge(Acc& a, const Acc& b) const {
    const Value largest = fmax(a.largest, b.largest);
    const Value shift = shift_of(largest);
    a = {largest, a.sum * exp(a.largest - shift) + b.sum * exp(b.largest - shift)};
  }
  __device__ void put(void* out, int64_t at, const Acc& acc) const {
    source.store(out, at, acc.largest + log(acc.sum));
  }

 private:
  /// Infinities stay in the exponent: their differences are not numbers.
  __device__ static Value shift_of(Value largest) { return isinf(largest) ? 0 : largest; }
};

std::shared_ptr<ReducePlan> prepare_moments(const VarParams& p, const Specs& s) {
  return plan_reduction(s.in[0], p.axes, sizeof(Moments<Typed<double>>::Acc), true);
}

template <bool root>
void run_moments(const VarParams& p, const ReducePlan& plan, const Call& c) {
  double n = 1;
  for (const int64_t axis : p.axes)
    n *= static_cast<double>(c.in[0].shape()[static_cast<int>(axis)]);
  with_float_source(c.in[0].dtype(), [&](auto source) {
    reduce(plan, Moments<decltype(source)>{source, n, std::max(0.0, n - p.correction), root}, c);
  });
}

std::shared_ptr<ReducePlan> prepare_logsumexp(const ReduceParams& p, const Specs& s) {
  return plan_reduction(s.in[0], p.axes, sizeof(LogSumExp<Typed<double>>::Acc), true);
}

void run_logsumexp(const ReduceParams&, const ReducePlan& plan, const Call& c) {
  with_float_source(c.in[0].dtype(),
                    [&](auto source) { reduce(plan, LogSumExp<decltype(source)>{source}, c); });
}

}  // namespace

KernelList var_cuda_kernels() {
  return {kernel<supports_all<VarParams>, prepare_moments, run_moments<false>>("tree")};
}
KernelList std_cuda_kernels() {
  return {kernel<supports_all<VarParams>, prepare_moments, run_moments<true>>("tree")};
}
KernelList logsumexp_cuda_kernels() {
  return {kernel<supports_all<ReduceParams>, prepare_logsumexp, run_logsumexp>("tree")};
}

}  // namespace mica
