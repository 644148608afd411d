#include "mica/op/kernel.h"
#include "mica/ops/index/index.h"
#include "mica/ops/index/placement.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/fault.cuh"
#include "mica/runtime/cuda/strided.cuh"

// A block of threads to a block of x: one pass counts, the other writes.
namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 1024;
constexpr int kWarps = kThreads / 32;
constexpr int kPerWarp = kNonzeroBlock / kWarps;  ///< elements, 32 at a time
static_assert(kPerWarp == 32 * 32, "a lane keeps the answers of one step");

template <class Word>
__global__ void __launch_bounds__(kThreads)
    count_blocks(const Word* x, int64_t n, Word bits, int64_t* counts) {
  constexpr int V = kVec16<Word>;
  const int64_t first = int64_t{blockIdx.x} * kNonzeroBlock;
  const auto size = static_cast<int>(::min(n - first, kNonzeroBlock));
  const Word* block = x + first;
  const int whole = is_aligned(block, 16) ? size / V : 0;
  int count = 0;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < whole; i += kThreads) {
    const Vec<Word, V> values = load_vec<V>(block + i * V);
#pragma unroll
    for (int e = 0; e < V; ++e) count += (values.v[e] & bits) != 0 ? 1 : 0;
  }
  for (int i = whole * V + static_cast<int>(threadIdx.x); i < size; i += kThreads)
    count += (block[i] & bits) != 0 ? 1 : 0;
  count = block_sum<kThreads>(count);
  if (threadIdx.x == 0) counts[blockIdx.x] = count;
}

/// The sum of the values of the lanes up to this one.
__device__ int64_t warp_sum_up_to(int64_t x) {
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  for (int offset = 1; offset < 32; offset *= 2) {
    const int64_t before = __shfl_up_sync(0xffffffffU, x, offset);
    if (lane >= offset) x += before;
  }
  return x;
}

/// Each count becomes the sum of those up to it; one block.
__global__ void __launch_bounds__(kThreads) add_counts(int64_t* counts, int64_t n) {
  __shared__ int64_t sums[kWarps];
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  const auto warp = static_cast<int>(threadIdx.x) / 32;
  int64_t before = 0;
  for (int64_t first = 0; first < n; first += kThreads) {
    const int64_t i = first + threadIdx.x;
    const int64_t up_to = warp_sum_up_to(i < n ? counts[i] : 0);
    if (lane == 31) sums[warp] = up_to;
    __syncthreads();
    const int64_t of_warp = sums[lane];
    const int64_t warps_before = warp_sum(lane < warp ? of_warp : int64_t{0});
    if (i < n) counts[i] = before + warps_before + up_to;
    before += warp_sum(of_warp);
    __syncthreads();
  }
}

struct Axes {
  int rank;
  bool narrow;  ///< indices fit in 31 bits
  int64_t size[Dims::kMaxRank];
  Divider by_size[Dims::kMaxRank];
};

__device__ void write_position(const Axes& axes, int64_t index, int64_t* to) {
#pragma unroll
  for (int d = Dims::kMaxRank - 1; d >= 0; --d) {
    if (d >= axes.rank) continue;
    const int64_t rest = axes.narrow
                             ? int64_t{axes.by_size[d].quotient(static_cast<uint32_t>(index))}
                             : index / axes.size[d];
    to[d] = index - rest * axes.size[d];
    index = rest;
  }
}

/// Blocks whose ends are not those of x write nothing, and say so.
template <class Word>
__global__ void __launch_bounds__(kThreads)
    write_positions(const __grid_constant__ Axes axes, const Word* x, int64_t n, Word bits,
                    const int64_t* ends, int64_t count, int64_t* out, Fault misfit, Fault* fault) {
  __shared__ int counts[kWarps];
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  const auto warp = static_cast<int>(threadIdx.x) / 32;
  const int64_t first = int64_t{blockIdx.x} * kNonzeroBlock + warp * kPerWarp;
  unsigned mine = 0;  // the answers of step `lane`
#pragma unroll 8
  for (int s = 0; s < 32; ++s) {
    const int64_t i = first + s * 32 + lane;
    const unsigned answers = __ballot_sync(0xffffffffU, i < n && (x[i] & bits) != 0);
    if (lane == s) mine = answers;
  }
  const int of_warp = warp_sum(__popc(mine));
  if (lane == 0) counts[warp] = of_warp;
  __syncthreads();
  const int64_t total = warp_sum(counts[lane]);
  const int64_t begin = blockIdx.x == 0 ? 0 : ends[blockIdx.x - 1];
  const int64_t end = ends[blockIdx.x];
  const bool fits = begin >= 0 && end <= count && end - begin == total &&
                    (blockIdx.x + 1 < gridDim.x || end == count);
  if (!fits) {
    if (threadIdx.x == 0) note_fault(fault, misfit);
    return;
  }
  int64_t position = begin + warp_sum(lane < warp ? counts[lane] : 0);
  for (int s = 0; s < 32; ++s) {
    const unsigned answers = __shfl_sync(0xffffffffU, mine, s);
    if ((answers >> lane & 1U) != 0) {
      const int before = __popc(answers & ((1U << lane) - 1U));
      write_position(axes, first + s * 32 + lane, out + (position + before) * axes.rank);
    }
    position += __popc(answers);
  }
}

Support supports_ends(const NoParams&, const Specs&) { return Support::yes().with_contiguous(0b1); }

void run_ends(const NoParams&, const Call& c) {
  const int64_t blocks = c.out[0].numel();
  auto* ends = c.out[0].as<int64_t>();
  switch_bits(c.in[0].dtype(), [&]<class W>(W bits) {
    c.encoder->launch(count_blocks<W>, static_cast<unsigned>(blocks), kThreads, 0,
                      c.in[0].as<const W>(), c.in[0].numel(), bits, ends);
  });
  if (blocks > 1) c.encoder->launch(add_counts, 1, kThreads, 0, ends, blocks);
}

Support supports(const NonzeroParams&, const Specs&) {
  return Support::yes().with_contiguous(0b11);
}

void run(const NonzeroParams& p, const Call& c) {
  const Shape& shape = c.in[0].shape();
  const int64_t n = c.in[0].numel();
  Axes axes{.rank = shape.rank(), .narrow = n < kNarrowLimit, .size = {}, .by_size = {}};
  for (int i = 0; i < axes.rank; ++i) {
    axes.size[i] = shape[i];
    if (axes.narrow && n > 0) axes.by_size[i] = Divider(static_cast<uint32_t>(shape[i]));
  }
  Fault misfit;
  misfit.op = "nonzero: ends are not those of x";
  switch_bits(c.in[0].dtype(), [&]<class W>(W bits) {
    c.encoder->launch(write_positions<W>, static_cast<unsigned>(c.in[1].numel()), kThreads, 0, axes,
                      c.in[0].as<const W>(), n, bits, c.in[1].as<const int64_t>(), p.count,
                      c.out[0].as<int64_t>(), misfit, c.encoder->fault());
  });
}

}  // namespace

KernelList nonzero_ends_cuda_kernels() { return {kernel<supports_ends, run_ends>("blocks")}; }
KernelList nonzero_cuda_kernels() { return {kernel<supports, run>("blocks")}; }

}  // namespace mica
