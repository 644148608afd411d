#pragma once

#include "mica/runtime/cuda/types.cuh"

// The mathematics of a line, for the kernels of rows and of columns.
namespace mica::cuda::softmax_line {

template <class C>
__device__ C lowest() {
  return static_cast<C>(-INFINITY);
}

/// The largest of some values and the sum of their exponentials relative to it.
template <class C>
struct OnlineSum {
  C largest = lowest<C>();
  C sum = 0;

  /// A line of nothing but -infinity so far adds up to 0.
  __device__ void raise(C to) {
    sum *= exp(largest - (to == lowest<C>() ? C(0) : to));
    largest = to;
  }
  template <int N>
  __device__ void take(const C (&values)[N]) {
    C to = largest;
#pragma unroll
    for (int i = 0; i < N; ++i) to = MaxOf{}(to, values[i]);
    raise(to);
    const C shift = to == lowest<C>() ? C(0) : to;
#pragma unroll
    for (int i = 0; i < N; ++i) sum += exp(values[i] - shift);
  }
};

/// The result for x from its line's OnlineSum; `last` is the logarithm or the inverse of the sum.
template <class C>
__device__ C finish(C x, C largest, C last, bool logarithm) {
  return logarithm ? x - largest - last : exp(x - largest) * last;
}
template <class C>
__device__ C last_of(C sum, bool logarithm) {
  return logarithm ? log(sum) : C(1) / sum;
}

template <class C>
__device__ C grad_term(C dy, C y, bool logarithm) {
  return logarithm ? dy : dy * y;
}
template <class C>
__device__ C derivative(C dy, C y, C sum, bool logarithm) {
  return logarithm ? dy - exp(y) * sum : y * (dy - sum);
}

}  // namespace mica::cuda::softmax_line
