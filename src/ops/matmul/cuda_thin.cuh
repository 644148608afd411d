#pragma once

// f32 products with one size of at most 16, as the last layer of a classifier makes them: no tile
// of a tensor core would be full, so threads multiply in f32 and hold the thin side in registers.
#include "mica/ops/matmul/cuda_small.cuh"

namespace mica::small_product {

inline constexpr int kDotRows = 2;
inline constexpr int kDotThreads = 512;  ///< at most
inline constexpr int kRowLanes = 4;      ///< of a warp in `columns`
inline constexpr int kColumnLanes = 32 / kRowLanes;
inline constexpr int kColumnWarps = 16;  ///< at most
inline constexpr int kDepth = 4;         ///< rows of b that a thread of `columns` reads together
inline constexpr int kSpreadThreads = 128;
inline constexpr int kSpreadRows = 2;

__device__ inline float bias_of(const SmallProduct& p, int col) {
  return p.bias && col < p.n ? p.bias[col] : 0;
}

/// Lane i gets the sum of v[i] over all lanes.
template <int half = 16>
__device__ float transposed_sum(float (&v)[32]) {
  const bool upper = (threadIdx.x & half) != 0;
#pragma unroll
  for (int i = 0; i < half; ++i) {
    const float low = v[i];
    const float high = v[i + half];
    v[i] = (upper ? high : low) + __shfl_xor_sync(0xffffffffU, upper ? low : high, half);
  }
  if constexpr (half > 1) return transposed_sum<half / 2>(v);
  return v[0];
}

/// A thin n where K lies together in both operands: a block computes R rows of the result, its
/// threads share K, V values at a time; so do the blocks of a cluster. `most` is at least n.
/// Grid: splits of K, rows.
template <int R, int most, int V, class End>
__device__ void dots(const SmallProduct& p, const End& end) {
  wait_for_inputs();
  static_assert(R * most <= 32);
  __shared__ float parts[kDotThreads / 32][32];
  __shared__ float received[kMostSplits][32];
  const int splits = static_cast<int>(gridDim.x);
  const int rank = static_cast<int>(blockIdx.x);
  if (splits > 1) cluster_arrive();
  const int row0 = static_cast<int>(blockIdx.y) * R;
  const int tid = static_cast<int>(threadIdx.x);
  const int col = tid % most;
  const float bias = bias_of(p, col);
  float acc[32] = {};
  const float* a[R];
#pragma unroll
  for (int r = 0; r < R; ++r) a[r] = p.a + int64_t{min(row0 + r, p.m - 1)} * p.a_pitch;
  const int k_end = min(p.k, (rank + 1) * p.slice);
  for (int k = rank * p.slice + tid * V; k < k_end; k += static_cast<int>(blockDim.x) * V) {
    cuda::Vec<float, V> x[R];
    cuda::Vec<float, V> y[most];
#pragma unroll
    for (int r = 0; r < R; ++r) x[r] = cuda::load_vec<V>(a[r] + k);
#pragma unroll
    for (int n = 0; n < most; ++n)
      y[n] = cuda::load_vec<V>(p.b + int64_t{min(n, p.n - 1)} * p.b_pitch + k);
#pragma unroll
    for (int n = 0; n < most; ++n)
#pragma unroll
      for (int r = 0; r < R; ++r)
#pragma unroll
        for (int e = 0; e < V; ++e) acc[r * most + n] += x[r].v[e] * y[n].v[e];
  }
  parts[tid / 32][tid % 32] = transposed_sum(acc);
  __syncthreads();
  if (splits == 1 && tid >= 32) return;
  float v = 0;
  if (tid < 32)
    for (int w = 0; w < static_cast<int>(blockDim.x) / 32; ++w) v += parts[w][tid];
  if (splits > 1) {
    cluster_wait();
    if (tid < 32) send(of_block(&received[rank][tid], 0), v);
    cluster_arrive();
    cluster_wait();
    if (rank != 0 || tid >= 32) return;
    v = 0;
    for (int r = 0; r < splits; ++r) v += received[r][tid];
  }
  float sum[1] = {v + bias};
  if (tid < R * most && col < p.n) finish<1>(p, end, row0 + tid / most, col, sum);
}

/// A thin k: a thread computes V columns of R rows.
template <int R, int most, int V, class End>
__device__ void spread(const SmallProduct& p, const End& end) {
  wait_for_inputs();
  const int col =
      (static_cast<int>(blockIdx.x) * kSpreadThreads + static_cast<int>(threadIdx.x)) * V;
  if (col >= p.n) return;
  cuda::Vec<float, V> b[most];
  float a[R][most];
#pragma unroll
  for (int k = 0; k < most; ++k)
    b[k] = cuda::load_vec<V>(p.b + int64_t{min(k, p.k - 1)} * p.b_pitch + col);
  const int row0 = static_cast<int>(blockIdx.y) * R;
#pragma unroll
  for (int r = 0; r < R; ++r)
#pragma unroll
    for (int k = 0; k < most; ++k)
      a[r][k] = p.a[int64_t{min(row0 + r, p.m - 1)} * p.a_row + int64_t{min(k, p.k - 1)} * p.a_col];
  Elements<V, End> elements[R];
#pragma unroll
  for (int r = 0; r < R; ++r) elements[r] = Elements<V, End>(p, end, row0 + r, col);
  float bias[V];
#pragma unroll
  for (int e = 0; e < V; ++e) bias[e] = bias_of(p, col + e);
#pragma unroll
  for (int r = 0; r < R; ++r) {
    elements[r].prepare(end);
    float sum[V];
#pragma unroll
    for (int e = 0; e < V; ++e) sum[e] = bias[e];
#pragma unroll
    for (int k = 0; k < most; ++k)
#pragma unroll
      for (int e = 0; e < V; ++e)
        if (k < p.k) sum[e] += a[r][k] * b[k].v[e];
    elements[r].finish(end, sum);
  }
}

/// A thin m where the rows of a lie together, and those of b: a block computes kColumnLanes
/// columns, its warps share K. The sums of a's rows are one more column, of ones.
template <int most, class End>
__device__ void columns(const SmallProduct& p, const End& end) {
  wait_for_inputs();
  __shared__ float parts[kColumnWarps][most][kColumnLanes];
  const int tid = static_cast<int>(threadIdx.x);
  const int lane = tid % 32;
  const int warp = tid / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int col0 = static_cast<int>(blockIdx.x) * kColumnLanes;
  const int col = col0 + lane % kColumnLanes;
  const int to = col0 + tid % kColumnLanes;
  const float bias = bias_of(p, to);
  float acc[most] = {};
  const int step = warps * kRowLanes;
  for (int k0 = warp * kRowLanes + lane / kColumnLanes; k0 < p.k; k0 += kDepth * step) {
    float x[kDepth];
    float a[kDepth][most];
#pragma unroll
    for (int i = 0; i < kDepth; ++i) {
      const int64_t k = min(k0 + i * step, p.k - 1);
      x[i] = col < p.n ? p.b[k * p.b_pitch + col] : 1;
#pragma unroll
      for (int m = 0; m < most; ++m) a[i][m] = p.a[k * p.a_pitch + min(m, p.m - 1)];
    }
#pragma unroll
    for (int i = 0; i < kDepth; ++i)
#pragma unroll
      for (int m = 0; m < most; ++m)
        if (k0 + i * step < p.k) acc[m] += a[i][m] * x[i];
  }
#pragma unroll
  for (int m = 0; m < most; ++m) {
#pragma unroll
    for (int lanes = kColumnLanes; lanes < 32; lanes *= 2)
      acc[m] += __shfl_xor_sync(0xffffffffU, acc[m], lanes);
    if (lane < kColumnLanes) parts[warp][m][lane] = acc[m];
  }
  __syncthreads();
  for (int i = tid; i < kColumnLanes * p.m; i += static_cast<int>(blockDim.x)) {
    const int m = i / kColumnLanes;
    if (to > p.n) return;
    float v = 0;
    for (int w = 0; w < warps; ++w) v += parts[w][m][i % kColumnLanes];
    if (to < p.n) {
      float sum[1] = {v + bias};
      finish<1>(p, end, m, to, sum);
    } else if (p.sums) {
      p.sums[m] = v;
    }
  }
}

}  // namespace mica::small_product
