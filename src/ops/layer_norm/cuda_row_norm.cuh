#pragma once

// Layer, RMS and group norms that carry programs: a row is held in registers by a few threads or a
// block. Run-time compilation takes this file as it is, and nothing else does.
#include "mica/ops/fused/device.h"
#include "mica/runtime/cuda/types.cuh"
#include "mica/runtime/portable.h"

namespace mica::row_norm {

/// Rows of n neighbours in memory: of a layer norm, or the groups of a group norm's images.
struct RowNorm {
  // All lie on 16-byte boundaries where more than one element is loaded at a time.
  const void* x;
  const void* weight;  ///< or null
  const void* bias;    ///< or null
  void* mean;          ///< or null: the norm is not centred
  void* rstd;
  int64_t rows;
  int64_t n;
  // The parameters of column c of row r are number r % period * width + c / size.
  int64_t period;
  int64_t width;
  int64_t size;
  int group;  ///< threads of a row, a power of two; of a block, where they are more than a warp
  double eps;
};

inline constexpr int kMostThreads = 512;
/// Loads of V elements of a row that a thread holds.
MICA_PORTABLE constexpr int held_loads(int v) { return v == 1 ? 8 : 4; }

#if defined(__CUDACC_RTC__)

/// No program.
struct Nothing {
  template <int V, class C>
  __device__ void operator()(long long, C (&)[V]) const {}
};

/// The sum over the threads of a row; all threads of a block call it together.
template <class C>
__device__ inline C row_sum(C x, int group) {
  for (int offset = min(group, 32) / 2; offset > 0; offset /= 2)
    x += __shfl_xor_sync(0xffffffffU, x, offset);
  if (group <= 32) return x;
  __shared__ C partial[kMostThreads / 32];
  const int lane = static_cast<int>(threadIdx.x) % 32;
  __syncthreads();  // an earlier call may still be reading
  if (lane == 0) partial[threadIdx.x / 32] = x;
  __syncthreads();
  return cuda::warp_sum(lane < group / 32 ? partial[lane] : C(0));
}

/// Rows of T with parameters of P, computed in C. `before(at, x)` makes the values of what was
/// read, `after(at, y)` stores results. What does not fit in registers is read again, where there
/// is nothing before.
template <class T, class P, class C, int V, class Before, class After>
__device__ void normalise(const RowNorm& p, const Before& before, const After& after) {
  constexpr int K = held_loads(V);
  const auto group = static_cast<int64_t>(p.group);
  const int64_t lane = static_cast<int64_t>(threadIdx.x) % group;
  const int64_t together = static_cast<int64_t>(blockDim.x) / group;
  const C n = static_cast<C>(p.n);
  // All threads of a block stay in the loop, since they add up together.
  for (int64_t first = blockIdx.x * together; first < p.rows;
       first += static_cast<int64_t>(gridDim.x) * together) {
    const int64_t row = first + static_cast<int64_t>(threadIdx.x) / group;
    const int64_t inside = row < p.rows ? p.n : 0;
    const int64_t start = row * p.n;
    const auto read = [&](int64_t column, C(&x)[V]) {
      const auto own = fused::load<T, V>(p.x, start + column);
#pragma unroll
      for (int e = 0; e < V; ++e) x[e] = fused::widen(own.v[e]);
    };
    C held[K][V];
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int64_t column = (lane + k * group) * V;
      if (column >= inside) continue;
      read(column, held[k]);
      before(start + column, held[k]);
    }
    const auto each = [&](auto f) {
#pragma unroll
      for (int k = 0; k < K; ++k)
        if ((lane + k * group) * V < inside) f((lane + k * group) * V, held[k]);
      for (int64_t column = (lane + K * group) * V; column < inside; column += group * V) {
        C x[V];
        read(column, x);
        f(column, x);
      }
    };
    C centre = 0;
    if (p.mean) {
      each([&](int64_t, const C(&x)[V]) {
#pragma unroll
        for (int e = 0; e < V; ++e) centre += x[e];
      });
      centre = row_sum(centre, p.group) / n;
    }
    C squares = 0;
    each([&](int64_t, const C(&x)[V]) {
#pragma unroll
      for (int e = 0; e < V; ++e) squares += (x[e] - centre) * (x[e] - centre);
    });
    const C inverse = C(1) / sqrt(row_sum(squares, p.group) / n + static_cast<C>(p.eps));
    const int64_t parameters = p.period == 1 ? 0 : row % p.period * p.width;
    each([&](int64_t column, const C(&x)[V]) {
      // Of a group norm whole vectors lie in a channel.
      const int64_t i = parameters + (p.size == 1 ? column : column / p.size);
      const auto parameter = [&](const void* data) {
        return p.size == 1 ? fused::load<P, V>(data, i) : fused::repeat<P, V>(data, i);
      };
      fused::Vec<P, V> scale;
      fused::Vec<P, V> shift;
      if (p.weight) scale = parameter(p.weight);
      if (p.bias) shift = parameter(p.bias);
      C y[V];
#pragma unroll
      for (int e = 0; e < V; ++e) {
        y[e] = (x[e] - centre) * inverse;
        if (p.weight) y[e] *= fused::widen(scale.v[e]);
        if (p.bias) y[e] += fused::widen(shift.v[e]);
      }
      after(start + column, y);
    });
    if (lane == 0 && row < p.rows) {
      if (p.mean) static_cast<C*>(p.mean)[row] = centre;
      static_cast<C*>(p.rstd)[row] = inverse;
    }
  }
}

/// Stores results of T.
template <class T>
struct Store {
  T* to;
  template <int V, class C>
  __device__ void operator()(long long at, const C (&y)[V]) const {
    fused::Vec<T, V> own;
#pragma unroll
    for (int e = 0; e < V; ++e) own.v[e] = fused::Into<T>::from(y[e]);
    fused::store<T, V>(to, at, own);
  }
};

#endif

}  // namespace mica::row_norm
