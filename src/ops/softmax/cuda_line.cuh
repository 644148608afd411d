#pragma once

#include "mica/runtime/cuda/types.cuh"

// The mathematics of a line, for the kernels of rows and of columns.
namespace mica::cuda::softmax_line {

template <class C>
__device__ C lowest() {
  return static_cast<C>(-INFINITY);
}

/// One instruction, where MaxOf takes two. NaN is passed over: the sum finds it.
struct LargerOf {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
  __device__ double operator()(double a, double b) const { return fmax(a, b); }
};

/// e to the power of x, for results of T: halves need no more than the GPU's own power of two,
/// whose error is some units of f32's last place.
template <class T>
__device__ Compute<T> exponential(Compute<T> x) {
  if constexpr (is_half<T>) {
    constexpr float kLog2E = 1.4426950408889634F;
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * kLog2E));
    return power;
  } else {
    return exp(x);
  }
}

/// The largest of some values and the sum of their exponentials relative to it.
template <class T>
struct OnlineSum {
  using C = Compute<T>;
  C largest = lowest<C>();
  C sum = 0;

  /// A line of nothing but -infinity so far adds up to 0.
  __device__ void raise(C to) {
    sum *= exponential<T>(largest - (to == lowest<C>() ? C(0) : to));
    largest = to;
  }
  template <int N>
  __device__ void take(const C (&values)[N]) {
    C to = largest;
#pragma unroll
    for (int i = 0; i < N; ++i) to = LargerOf{}(to, values[i]);
    raise(to);
    const C shift = to == lowest<C>() ? C(0) : to;
#pragma unroll
    for (int i = 0; i < N; ++i) sum += exponential<T>(values[i] - shift);
  }
};

/// The result for x from its line's OnlineSum; `last` is the logarithm or the inverse of the sum.
template <class T, class C = Compute<T>>
__device__ C finish(C x, C largest, C last, bool logarithm) {
  return logarithm ? x - largest - last : exponential<T>(x - largest) * last;
}
template <class C>
__device__ C last_of(C sum, bool logarithm) {
  return logarithm ? log(sum) : C(1) / sum;
}

template <class C>
__device__ C grad_term(C dy, C y, bool logarithm) {
  return logarithm ? dy : dy * y;
}
template <class T, class C = Compute<T>>
__device__ C derivative(C dy, C y, C sum, bool logarithm) {
  return logarithm ? dy - exponential<T>(y) * sum : y * (dy - sum);
}

}  // namespace mica::cuda::softmax_line
