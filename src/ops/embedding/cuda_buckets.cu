// The gradient of an embedding without atomics on its elements: the indices are put together by the
// rows they name, by counting, and each row of the gradient is the sum of its own. A row that
// many indices name is a block's, whose warps share them.
#include "mica/op/settings.h"
#include "mica/ops/embedding/cuda_buckets.h"
#include "mica/ops/embedding/embedding.h"
#include "mica/ops/gather/cuda_indexed.cuh"
#include "mica/runtime/cuda/check.h"
#include "mica/runtime/cuda/programmatic_launch.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kMany = 16;  // indices of a row that a warp takes alone

/// counts[r]: how many indices name row r.
__global__ void __launch_bounds__(kThreads)
    count_rows(IndexReader index, int64_t n, int32_t* counts) {
  wait_for_inputs();
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  const int64_t row = index.offset(i);
  if (row >= 0) atomicAdd(counts + row, 1);
}

/// starts[r]: where the places of row r begin, a range for each row in no fixed order; `cursors` is
/// a copy, `taken` how many have been given out. A warp takes what its rows need at once.
__global__ void __launch_bounds__(kThreads)
    place_rows(const int32_t* counts, int64_t rows, int32_t* taken, int32_t* starts,
               int32_t* cursors) {
  wait_for_inputs();
  const int64_t row = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int32_t own = row < rows ? counts[row] : 0;
  int32_t sum = own;
  for (int offset = 1; offset < 32; offset *= 2) {
    const int32_t before = __shfl_up_sync(0xffffffffU, sum, offset);
    if (lane >= offset) sum += before;
  }
  int32_t first = 0;
  if (lane == 31) first = atomicAdd(taken, sum);
  first = __shfl_sync(0xffffffffU, first, 31) + sum - own;
  if (row >= rows) return;
  starts[row] = first;
  cursors[row] = first;
}

/// places: the indices' numbers, row after row.
__global__ void __launch_bounds__(kThreads)
    fill_rows(IndexReader index, int64_t n, int32_t* cursors, int32_t* places) {
  wait_for_inputs();
  const int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (i >= n) return;
  index.fault = nullptr;  // noted when they were counted
  const int64_t row = index.offset(i);
  if (row >= 0) places[atomicAdd(cursors + row, 1)] = static_cast<int32_t>(i);
}

/// dweight (rows, width) from dy (n, width): V columns of a lane at once.
template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    sum_rows(int64_t rows, int width, const int32_t* __restrict__ starts,
             const int32_t* __restrict__ counts, const int32_t* __restrict__ places,
             const T* __restrict__ dy, T* __restrict__ dweight) {
  using C = Compute<T>;
  __shared__ C shared[kWarps][32 * V];
  wait_for_inputs();
  const auto warp = static_cast<int>(threadIdx.x / 32);
  const auto lane = static_cast<int>(threadIdx.x % 32);
  const int64_t row0 = int64_t{blockIdx.x} * kWarps;
  const auto add = [&](C(&sums)[V], int column, int32_t from, int32_t to, int32_t step) {
#pragma unroll 4
    for (int32_t i = from; i < to; i += step) {
      const Vec<T, V> v = load_vec<V>(dy + int64_t{places[i]} * width + column);
#pragma unroll
      for (int e = 0; e < V; ++e) sums[e] += to_compute(v.v[e]);
    }
  };
  const int64_t own = row0 + warp;
  const int32_t begin = own < rows ? starts[own] : 0;
  const int32_t end = own < rows ? begin + counts[own] : 0;
  for (int column = lane * V; own < rows && end - begin <= kMany && column < width;
       column += 32 * V) {
    C sums[V] = {};
    add(sums, column, begin, end, 1);
    store_vec<V>(dweight + own * width + column, pack<T>(sums));
  }
  for (int64_t row = row0; row < row0 + kWarps && row < rows; ++row) {
    if (counts[row] <= kMany) continue;
    const int32_t first = starts[row];
    const int32_t last = first + counts[row];
    for (int column0 = 0; column0 < width; column0 += 32 * V) {
      const int column = column0 + lane * V;
      C sums[V] = {};
      if (column < width) add(sums, column, first + warp, last, kWarps);
      __syncthreads();  // who reads the sums before
#pragma unroll
      for (int e = 0; e < V; ++e) shared[warp][lane * V + e] = sums[e];
      __syncthreads();
      for (int c = static_cast<int>(threadIdx.x); c < 32 * V; c += kThreads) {
        C sum = 0;
        for (int w = 0; w < kWarps; ++w) sum += shared[w][c];
        if (column0 + c < width) dweight[row * width + column0 + c] = convert<T>(sum);
      }
    }
  }
}

struct State : KernelState {
  int64_t indices = 0;
  int64_t rows = 0;
  int width = 0;
  int vector = 1;
};

Support supports(const EmbeddingGradParams& p, const Specs& s) {
  constexpr int64_t kMost = 1 << 30;
  constexpr int64_t kFew = 1 << 16;  // elements that atomics take as fast
  if (s.out[0].dtype == DType::f64) return Support::no("computes f32, f16 and bf16");
  if (deterministic()) return Support::no("the order of a row's sum is not fixed");
  const int64_t n = s.in[0].numel();
  if (n == 0 || s.out[0].numel() == 0) return Support::no("there is nothing to add up");
  if (p.rows > kMost || n > kMost) return Support::no("too many rows or indices");
  Support support = n * s.out[0].shape[1] < kFew ? Support::possible() : Support::yes();
  return std::move(support).with_contiguous(0b11);
}

std::shared_ptr<State> prepare(const EmbeddingGradParams& p, const Specs& s) {
  auto state = std::make_shared<State>();
  state->indices = s.in[0].numel();
  state->rows = p.rows;
  state->width = static_cast<int>(s.out[0].shape[1]);
  const auto v = static_cast<int>(16 / size_of(s.out[0].dtype));
  const bool whole = state->width % v == 0 && s.in[1].aligned && s.out[0].aligned;
  state->vector = whole ? v : 1;
  state->workspace_bytes =
      static_cast<size_t>(3 * state->rows + 1 + state->indices) * sizeof(int32_t);
  return state;
}

void run(const EmbeddingGradParams& p, const State& s, const Call& c) {
  IndexReader index = index_reader({"embedding_grad", 0, p.rows}, c.in[0], 1, c.encoder->fault());
  index.skipped = p.padding;
  auto* counts = static_cast<int32_t*>(c.workspace);
  int32_t* taken = counts + s.rows;
  int32_t* starts = taken + 1;
  int32_t* cursors = starts + s.rows;
  int32_t* places = cursors + s.rows;
  check_cuda(cudaMemsetAsync(counts, 0, static_cast<size_t>(s.rows + 1) * sizeof(int32_t),
                             c.encoder->stream()));
  c.encoder->launch(count_rows, grid_over(s.indices, kThreads), kThreads, 0, index, s.indices,
                    counts);
  const ProgrammaticLaunch overlap;
  c.encoder->launch(place_rows, grid_over(s.rows, kThreads), kThreads, 0, counts, s.rows, taken,
                    starts, cursors);
  c.encoder->launch(fill_rows, grid_over(s.indices, kThreads), kThreads, 0, index, s.indices,
                    cursors, places);
  cuda_switch_float(c.out[0].dtype(), "embedding_grad", [&]<class T>() {
    const auto kernel = s.vector > 1 ? sum_rows<T, kVec16<T>> : sum_rows<T, 1>;
    c.encoder->launch(kernel, grid_over(s.rows, kWarps), kThreads, 0, s.rows, s.width, starts,
                      counts, places, c.in[1].as<const T>(), c.out[0].as<T>());
  });
}

}  // namespace

Kernel embedding_grad_buckets_kernel() { return kernel<supports, prepare, run>("buckets"); }

}  // namespace mica
