// f32 products with one size of at most 16, as the last layer of a classifier makes them: no tile
// of a tensor core would be full, so threads multiply in f32 and hold the thin side in registers.
#include <algorithm>

#include "mica/ops/matmul/cuda_small.cuh"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/programmatic_launch.cuh"

namespace mica {
namespace {

using namespace small_product;

constexpr int kDotRows = 2;
constexpr int kDotThreads = 512;  ///< at most
constexpr int kRowLanes = 4;      ///< of a warp in `columns`
constexpr int kColumnLanes = 32 / kRowLanes;
constexpr int kColumnWarps = 16;  ///< at most
constexpr int kDepth = 4;         ///< rows of b that a thread of `columns` reads together
constexpr int kSpreadThreads = 128;
constexpr int kSpreadRows = 2;

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
template <int R, int most, int V>
__global__ void __launch_bounds__(kDotThreads) dots(SmallProduct p) {
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
  if (tid < R * most && col < p.n) finish<1>(p, row0 + tid / most, col, {v + bias});
}

/// A thin k: a thread computes V columns of R rows. a_row and a_col are a's strides.
template <int R, int most, int V>
__global__ void __launch_bounds__(kSpreadThreads) spread(SmallProduct p, int a_row, int a_col) {
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
      a[r][k] = p.a[int64_t{min(row0 + r, p.m - 1)} * a_row + int64_t{min(k, p.k - 1)} * a_col];
  Elements<V> elements[R];
#pragma unroll
  for (int r = 0; r < R; ++r) elements[r] = Elements<V>(p, row0 + r, col);
  float bias[V];
#pragma unroll
  for (int e = 0; e < V; ++e) bias[e] = bias_of(p, col + e);
#pragma unroll
  for (int r = 0; r < R; ++r) {
    elements[r].prepare(p);
    float sum[V];
#pragma unroll
    for (int e = 0; e < V; ++e) sum[e] = bias[e];
#pragma unroll
    for (int k = 0; k < most; ++k)
#pragma unroll
      for (int e = 0; e < V; ++e)
        if (k < p.k) sum[e] += a[r][k] * b[k].v[e];
    elements[r].finish(p, sum);
  }
}

/// A thin m where the rows of a lie together, and those of b: a block computes kColumnLanes
/// columns, its warps share K. The sums of a's rows are one more column, of ones.
template <int most>
__global__ void __launch_bounds__(kColumnWarps * 32) columns(SmallProduct p) {
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
      finish<1>(p, m, to, {v + bias});
    } else if (p.sums) {
      p.sums[m] = v;
    }
  }
}

/// Calls f.operator()<most>() with a number that is at least `size`.
template <class F>
void switch_thin(int size, F&& f) {
  if (size <= 4) return f.template operator()<4>();
  if (size <= 10) return f.template operator()<10>();
  f.template operator()<kThin>();
}

unsigned blocks(int n, int per_block) {
  return static_cast<unsigned>(cuda::ceil_div(n, per_block));
}

}  // namespace

void launch_thin_n(Encoder& encoder, const SmallProduct& p, int splits) {
  const bool vectors = p.a_vectors && p.b_vectors && p.k % 4 == 0;
  const int warps = cuda::ceil_div(p.slice, vectors ? 128 : 32);
  const dim3 grid(static_cast<unsigned>(splits), blocks(p.m, kDotRows));
  switch_thin(p.n, [&]<int most>() {
    const ProgrammaticLaunch overlap;
    encoder.launch_clusters(vectors ? dots<kDotRows, most, 4> : dots<kDotRows, most, 1>, grid,
                            std::min(warps * 32, kDotThreads), 0, static_cast<unsigned>(splits), p);
  });
}

void launch_thin_k(Encoder& encoder, const SmallProduct& p, int a_row, int a_col) {
  const bool vectors = p.b_vectors && p.out_vectors && p.n % 4 == 0;
  const dim3 grid(blocks(p.n, kSpreadThreads * (vectors ? 4 : 1)), blocks(p.m, kSpreadRows));
  switch_thin(p.k, [&]<int most>() {
    const ProgrammaticLaunch overlap;
    encoder.launch(vectors ? spread<kSpreadRows, most, 4> : spread<kSpreadRows, most, 1>, grid,
                   kSpreadThreads, 0, p, a_row, a_col);
  });
}

void launch_thin_m(Encoder& encoder, const SmallProduct& p) {
  const int warps = std::min(cuda::ceil_div(p.k, kRowLanes * kDepth), kColumnWarps);
  switch_thin(p.m, [&]<int most>() {
    const ProgrammaticLaunch overlap;
    encoder.launch(columns<most>, blocks(p.n + (p.sums ? 1 : 0), kColumnLanes), warps * 32, 0, p);
  });
}

}  // namespace mica
