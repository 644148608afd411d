#pragma once

#include "mica/ops/softmax/cuda_line.cuh"

// Lines along an axis that is not innermost: neighbouring threads have neighbouring lines.
namespace mica::cuda::softmax_line {

inline constexpr int kColumnThreads = 256;
inline constexpr int kSteps = 8;  ///< elements of a column that a thread loads together

/// Lines whose elements lie `inner` apart.
struct Columns {
  int64_t count, n, inner;

  /// The first element of a line.
  __device__ int64_t start(int64_t column) const {
    return column / inner * n * inner + column % inner;
  }
};

/// Calls f(first column of the block) in all threads of a block of (columns, shares of a column).
template <class F>
__device__ void each_block_of(const Columns& columns, F&& f) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x; first < columns.count;
       first += step)
    f(first);
}

template <class T>
__global__ void __launch_bounds__(kColumnThreads)
    columns_forward(Columns columns, bool logarithm, const T* x, T* y) {
  using C = Compute<T>;
  __shared__ C shared_largest[kColumnThreads];
  __shared__ C shared_sum[kColumnThreads];
  const int shares = static_cast<int>(blockDim.y);
  each_block_of(columns, [&](int64_t first) {
    const bool present = first + threadIdx.x < columns.count;
    const int64_t at = present ? columns.start(first + threadIdx.x) : 0;
    const int64_t n = present ? columns.n : 0;
    OnlineSum<T> online;
    for (int64_t k = threadIdx.y; k < n; k += shares * kSteps) {
      C values[kSteps];
#pragma unroll
      for (int j = 0; j < kSteps; ++j) {
        const int64_t here = k + j * shares;
        values[j] = here < n ? to_compute(x[at + here * columns.inner]) : lowest<C>();
      }
      online.take(values);
    }
    if (shares > 1) {
      const unsigned place = threadIdx.y * blockDim.x + threadIdx.x;
      shared_largest[place] = online.largest;
      shared_sum[place] = online.sum;
      __syncthreads();
      online = {};
      for (unsigned j = threadIdx.x; j < kColumnThreads; j += blockDim.x) {
        OnlineSum<T> other{shared_largest[j], shared_sum[j]};
        const C to = LargerOf{}(online.largest, other.largest);
        online.raise(to);
        other.raise(to);
        online.sum += other.sum;
      }
      __syncthreads();
    }
    const C last = last_of(online.sum, logarithm);
#pragma unroll 4
    for (int64_t k = threadIdx.y; k < n; k += shares) {
      const int64_t here = at + k * columns.inner;
      y[here] = convert<T>(finish<T>(to_compute(x[here]), online.largest, last, logarithm));
    }
  });
}

template <class T>
__global__ void __launch_bounds__(kColumnThreads)
    columns_grad(Columns columns, bool logarithm, const T* dy, const T* y, T* dx) {
  using C = Compute<T>;
  __shared__ C shared_sum[kColumnThreads];
  const int shares = static_cast<int>(blockDim.y);
  each_block_of(columns, [&](int64_t first) {
    const bool present = first + threadIdx.x < columns.count;
    const int64_t at = present ? columns.start(first + threadIdx.x) : 0;
    const int64_t n = present ? columns.n : 0;
    C sum = 0;
#pragma unroll 4
    for (int64_t k = threadIdx.y; k < n; k += shares) {
      const int64_t here = at + k * columns.inner;
      sum += grad_term(to_compute(dy[here]), to_compute(y[here]), logarithm);
    }
    if (shares > 1) {
      shared_sum[threadIdx.y * blockDim.x + threadIdx.x] = sum;
      __syncthreads();
      sum = 0;
      for (unsigned j = threadIdx.x; j < kColumnThreads; j += blockDim.x) sum += shared_sum[j];
      __syncthreads();
    }
#pragma unroll 4
    for (int64_t k = threadIdx.y; k < n; k += shares) {
      const int64_t here = at + k * columns.inner;
      dx[here] =
          convert<T>(derivative<T>(to_compute(dy[here]), to_compute(y[here]), sum, logarithm));
    }
  });
}

}  // namespace mica::cuda::softmax_line
