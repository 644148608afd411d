// The sum over the rows of a matrix, as the gradient of a layer's bias is: a warp takes 32 vectors
// of a row beside each other, the warps of a block and the blocks share the rows. Parts are added
// up in the same order each time.
#include <algorithm>

#include "mica/ops/matmul/cuda_kernels.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/programmatic_launch.cuh"
#include "mica/runtime/cuda/programmatic_launch.h"
#include "mica/runtime/cuda/types.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kTogether = 8;  ///< rows that a thread loads before it adds

/// Sums of the block's rows; n of them for each part. Grid: parts of the columns, of the rows.
template <class T>
__global__ void __launch_bounds__(kThreads)
    sum_part(const T* __restrict__ x, int64_t rows, int n, float* __restrict__ parts) {
  constexpr int V = kVec16<T>;
  __shared__ float sums[kWarps][32 * V];
  wait_for_inputs();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int column = (static_cast<int>(blockIdx.x) * 32 + lane) * V;
  const int64_t step = int64_t{gridDim.y} * kWarps;
  float own[V] = {};
  if (column < n)
    for (int64_t row = int64_t{blockIdx.y} * kWarps + warp; row < rows; row += step * kTogether) {
      Vec<T, V> v[kTogether];
#pragma unroll
      for (int t = 0; t < kTogether; ++t)
        if (row + t * step < rows) v[t] = load_vec<V>(x + (row + t * step) * n + column);
#pragma unroll
      for (int t = 0; t < kTogether; ++t)
        if (row + t * step < rows) {
#pragma unroll
          for (int e = 0; e < V; ++e) own[e] += to_compute(v[t].v[e]);
        }
    }
#pragma unroll
  for (int e = 0; e < V; ++e) sums[warp][lane * V + e] = own[e];
  __syncthreads();
  const int first = static_cast<int>(blockIdx.x) * 32 * V;
  for (int c = static_cast<int>(threadIdx.x); c < 32 * V && first + c < n; c += kThreads) {
    float sum = 0;
    for (int w = 0; w < kWarps; ++w) sum += sums[w][c];
    parts[int64_t{blockIdx.y} * n + first + c] = sum;
  }
}

/// Of every column the sum of the parts: a warp's lanes take 32 columns, its block's warps share
/// the parts.
template <class T>
__global__ void __launch_bounds__(kThreads)
    add_parts(const float* __restrict__ parts, int count, int n, T* __restrict__ y) {
  __shared__ float sums[kWarps][32];
  wait_for_inputs();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int column = static_cast<int>(blockIdx.x) * 32 + lane;
  float own = 0;
  if (column < n)
    for (int i = warp; i < count; i += kWarps) own += parts[int64_t{i} * n + column];
  sums[warp][lane] = own;
  __syncthreads();
  if (warp != 0 || column >= n) return;
  float sum = 0;
  for (int w = 0; w < kWarps; ++w) sum += sums[w][lane];
  y[column] = convert<T>(sum);
}

int64_t column_blocks(const TensorSpec& x) {
  return ceil_div<int64_t>(x.shape[1], 32 * static_cast<int64_t>(16 / size_of(x.dtype)));
}

int64_t parts_of(const TensorSpec& x, int multiprocessors) {
  constexpr int64_t kBlocks = 4;  // of a multiprocessor
  const int64_t wanted = kBlocks * multiprocessors / column_blocks(x);
  const int64_t most = ceil_div<int64_t>(x.shape[0], kWarps * kTogether);
  return std::clamp<int64_t>(wanted, 1, most);
}

template <class T>
void launch(const Call& call, const Arg& x, const Arg& y, int64_t parts) {
  const auto n = static_cast<int>(x.shape()[1]);
  auto* const partial = static_cast<float*>(call.workspace);
  const ProgrammaticLaunch overlap;
  call.encoder->launch(
      sum_part<T>,
      dim3(static_cast<unsigned>(column_blocks(*x.spec)), static_cast<unsigned>(parts)), kThreads,
      0, x.as<const T>(), x.shape()[0], n, partial);
  call.encoder->launch(add_parts<T>, static_cast<unsigned>(ceil_div(n, 32)), kThreads, 0, partial,
                       static_cast<int>(parts), n, y.as<T>());
}

}  // namespace

bool row_sums_take(const TensorSpec& x, const TensorSpec& y) {
  constexpr int64_t kFew = 1 << 9;  // rows, below which one launch is better than two
  return x.dtype != DType::f64 && x.dtype == y.dtype && x.rank() == 2 && x.is_contiguous() &&
         x.aligned && x.shape[0] >= kFew && x.shape[1] > 0 && x.shape[1] < (1 << 30) &&
         x.shape[1] % static_cast<int64_t>(16 / size_of(x.dtype)) == 0;
}

size_t row_sums_workspace(const TensorSpec& x, int multiprocessors) {
  return static_cast<size_t>(parts_of(x, multiprocessors) * x.shape[1]) * sizeof(float);
}

void run_row_sums(const Call& call, const Arg& x, const Arg& y) {
  const int64_t parts = parts_of(*x.spec, call.encoder->multiprocessors());
  if (x.dtype() == DType::f32)
    launch<float>(call, x, y, parts);
  else if (x.dtype() == DType::f16)
    launch<__half>(call, x, y, parts);
  else
    launch<__nv_bfloat16>(call, x, y, parts);
}

}  // namespace mica
