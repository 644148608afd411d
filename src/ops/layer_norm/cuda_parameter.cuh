#pragma once

#include <algorithm>

#include "mica/op/kernel.h"
#include "mica/runtime/cuda/types.cuh"

// What the CUDA kernels of layer_norm and group_norm share.
namespace mica::cuda {

/// All inputs and the first output start on 16-byte boundaries.
inline bool all_aligned(const Specs& s) {
  return s.out[0].aligned && std::all_of(s.in.begin(), s.in.end(), [](const TensorSpec& spec) {
           return !spec.defined || spec.aligned;
         });
}

/// A product that is rounded before anything is added to it, so that a mean of equal products takes
/// away each of them exactly.
__device__ inline float rounded_product(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double rounded_product(double a, double b) { return __dmul_rn(a, b); }

/// A weight or bias: of T, or `wide`, of Compute<T>; null where it was left out.
struct Parameter {
  const void* data = nullptr;
  bool wide = false;

  Parameter() = default;
  Parameter(const Arg& arg, DType x) : data(arg.data), wide(arg.defined() && arg.dtype() != x) {}

  template <class T>
  __device__ Compute<T> get(int64_t i, double otherwise) const {
    using C = Compute<T>;
    if (data == nullptr) return static_cast<C>(otherwise);
    if (wide) return static_cast<const C*>(data)[i];
    return to_compute(static_cast<const T*>(data)[i]);
  }

  /// V neighbours; where V > 1 they lie on a 16-byte boundary.
  template <class T, int V>
  __device__ void load(int64_t first, double otherwise, Compute<T> (&values)[V]) const {
    using C = Compute<T>;
    if (V == 1 || data == nullptr) {
#pragma unroll
      for (int e = 0; e < V; ++e) values[e] = get<T>(first + e, otherwise);
    } else if (wide) {
      constexpr int kPiece = V < kVec16<C> ? V : kVec16<C>;
#pragma unroll
      for (int e = 0; e < V; e += kPiece) {
        const Vec<C, kPiece> v = load_vec<kPiece>(static_cast<const C*>(data) + first + e);
#pragma unroll
        for (int j = 0; j < kPiece; ++j) values[e + j] = v.v[j];
      }
    } else {
      const Vec<T, V> v = load_vec<V>(static_cast<const T*>(data) + first);
#pragma unroll
      for (int e = 0; e < V; ++e) values[e] = to_compute(v.v[e]);
    }
  }
};

/// Adds up `parts` rows of n partial sums: of the weight's gradient, and behind them of the bias's.
/// Blocks of 32 columns by 8 shares of the parts; blockIdx.y tells which gradient.
template <class C>
__global__ void __launch_bounds__(256)
    add_parts(int64_t n, int parts, const C* partial, C* dweight, C* dbias) {
  __shared__ C sums[8][32];
  const int64_t column = int64_t{blockIdx.x} * 32 + threadIdx.x;
  const C* from = partial + int64_t{blockIdx.y} * parts * n + column;
  C sum = 0;
  if (column < n) {
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.y); i < parts; i += 8) sum += from[i * n];
  }
  sums[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= n) return;
  for (int i = 1; i < 8; ++i) sum += sums[i][threadIdx.x];
  (blockIdx.y == 0 ? dweight : dbias)[column] = sum;
}

}  // namespace mica::cuda
