#include <algorithm>

#include "mica/op/kernel.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/strided.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;     ///< of a block that sums along rows
constexpr int kTileColumns = 32;  ///< a block that sums columns: 32 outputs side by side,
constexpr int kTileRows = 16;     ///< by this many threads each
constexpr int64_t kBlocks = 512;  ///< a sum is split where it has fewer blocks than this
constexpr int64_t kLeast = 2048;  ///< elements a split is worth, per row of threads of a block

/// The type a sum of T is accumulated in, and for integers returned in.
template <class T>
using Sum = std::conditional_t<std::is_floating_point_v<Compute<T>>, Compute<T>, int64_t>;
template <class T>
using Result = std::conditional_t<std::is_floating_point_v<Compute<T>>, T, int64_t>;

/// Splits of the reduced axes. With more than one the sums of split s of output o go to
/// partial[o * splits + s], and a second pass adds them.
struct Splits {
  int64_t count = 1;
  int64_t length = 0;  ///< elements of a split
};

/// The kept axes (operands: in, out) and the reduced ones (in), in the input's memory order.
struct Axes {
  StridedLoop<2> kept;
  StridedLoop<1> reduced;
};

template <class To, class S>
__device__ void put(To* out, S* partial, const Splits& splits, int64_t at, int64_t work, S sum) {
  if (splits.count > 1) {
    partial[work] = sum;
  } else {
    out[at] = convert<To>(sum);
  }
}

/// G threads (32 or a whole block) add up one split of one output.
template <class From, class To, int G>
__global__ void __launch_bounds__(kThreads)
    sum_rows(const __grid_constant__ Axes axes, const From* in, To* out, Sum<From>* partial,
             Splits splits) {
  using S = Sum<From>;
  constexpr int kGroups = kThreads / G;
  const int64_t works = axes.kept.count * splits.count;
  for (int64_t w = static_cast<int64_t>(blockIdx.x) * kGroups + threadIdx.x / G; w < works;
       w += static_cast<int64_t>(gridDim.x) * kGroups) {
    const int64_t o = splits.count > 1 ? w / splits.count : w;
    const int64_t begin = (w - o * splits.count) * splits.length;
    const int64_t end = min(begin + splits.length, axes.reduced.count);
    int64_t at[2];
    axes.kept.offsets(o, at);
    S sum = 0;
#pragma unroll 4
    for (int64_t r = begin + threadIdx.x % G; r < end; r += G) {
      int64_t inner[1];
      axes.reduced.offsets(r, inner);
      sum += convert<S>(in[at[0] + inner[0]]);
    }
    sum = G == 32 ? warp_sum(sum) : block_sum<kThreads>(sum);
    if (threadIdx.x % G == 0) put(out, partial, splits, at[1], w, sum);
  }
}

/// A block adds up one split of 32 neighbouring outputs.
template <class From, class To>
__global__ void __launch_bounds__(kTileColumns* kTileRows)
    sum_columns(const __grid_constant__ Axes axes, const From* in, To* out, Sum<From>* partial,
                Splits splits) {
  using S = Sum<From>;
  __shared__ S tile[kTileRows][kTileColumns];
  const int64_t tiles = ceil_div<int64_t>(axes.kept.count, kTileColumns);
  for (int64_t w = blockIdx.x; w < tiles * splits.count; w += gridDim.x) {
    const int64_t split = w % splits.count;
    const int64_t o = w / splits.count * kTileColumns + threadIdx.x;
    const int64_t end = min((split + 1) * splits.length, axes.reduced.count);
    int64_t at[2] = {};
    S sum = 0;
    if (o < axes.kept.count) {
      axes.kept.offsets(o, at);
#pragma unroll 4
      for (int64_t r = split * splits.length + threadIdx.y; r < end; r += kTileRows) {
        int64_t inner[1];
        axes.reduced.offsets(r, inner);
        sum += convert<S>(in[at[0] + inner[0]]);
      }
    }
    tile[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && o < axes.kept.count) {
      for (int y = 1; y < kTileRows; ++y) sum += tile[y][threadIdx.x];
      put(out, partial, splits, at[1], o * splits.count + split, sum);
    }
    __syncthreads();
  }
}

struct SumState : KernelState {
  Axes axes;
  Axes second;  ///< of the pass over the splits' sums
  Splits splits;
  bool columns = false;
  bool whole_block = false;  ///< along rows: a block to an output, else a warp
};

/// The axes of `in` that are not in `reduced`, and those that are; the output is row-major.
Axes split_axes(const TensorSpec& in, const Dims& reduced) {
  Shape kept_shape, reduced_shape;
  Strides kept_strides, reduced_strides;
  for (int d = 0; d < in.rank(); ++d) {
    (reduced.contains(d) ? reduced_shape : kept_shape).push_back(in.shape[d]);
    (reduced.contains(d) ? reduced_strides : kept_strides).push_back(in.strides[d]);
  }
  return {.kept = strided_loop<2>(kept_shape, {kept_strides, contiguous_strides(kept_shape)}),
          .reduced = strided_loop<1>(reduced_shape, {reduced_strides})};
}

std::shared_ptr<SumState> prepare_sum(const ReduceParams& p, const Specs& s) {
  auto state = std::make_shared<SumState>();
  Axes& axes = state->axes;
  axes = split_axes(s.in[0], p.axes);
  const int64_t outputs = axes.kept.count;
  const int64_t length = axes.reduced.count;
  state->splits.length = length;
  if (outputs == 0 || length == 0) return state;
  // Neighbouring threads read neighbouring elements; a few columns are summed as strided rows.
  constexpr int64_t kFewColumns = 8;
  state->columns = axes.kept.rank > 0 && axes.kept.size[0] >= kFewColumns &&
                   (axes.reduced.rank == 0 || axes.kept.stride[0][0] < axes.reduced.stride[0][0]);
  const int64_t blocks = state->columns ? ceil_div<int64_t>(outputs, kTileColumns) : outputs;
  const int64_t worth = state->columns ? kLeast / kTileRows : kLeast;
  const int64_t splits = std::min(kBlocks / blocks, length / worth);
  if (splits > 1) {
    state->splits.length = ceil_div(length, splits);
    state->splits.count = ceil_div(length, state->splits.length);
    // The sums lie in the order in which the kept axes are walked, S of each output side by side.
    state->second = {.kept = axes.kept,
                     .reduced = strided_loop<1>({state->splits.count}, {Strides{1}})};
    int64_t stride = state->splits.count;
    for (int d = 0; d < axes.kept.rank; ++d) {
      state->second.kept.stride[0][d] = stride;
      stride *= axes.kept.size[d];
    }
    state->workspace_bytes = static_cast<size_t>(outputs * state->splits.count) * sizeof(int64_t);
  }
  state->whole_block = state->splits.length > 1024;
  return state;
}

template <class From, class To>
void launch_rows(Encoder& encoder, const Axes& axes, bool whole_block, const From* in, To* out,
                 Sum<From>* partial, const Splits& splits) {
  const int64_t works = axes.kept.count * splits.count;
  if (whole_block) {
    encoder.launch(sum_rows<From, To, kThreads>, grid_for(works, 1, encoder.multiprocessors()),
                   kThreads, 0, axes, in, out, partial, splits);
  } else {
    encoder.launch(sum_rows<From, To, 32>,
                   grid_for(works, kThreads / 32, encoder.multiprocessors()), kThreads, 0, axes, in,
                   out, partial, splits);
  }
}

void run_sum(const ReduceParams&, const SumState& state, const Call& c) {
  Encoder& encoder = *c.encoder;
  cuda_switch_all(c.in[0].dtype(), [&]<class T>() {
    const T* in = c.in[0].as<const T>();
    auto* out = c.out[0].as<Result<T>>();
    auto* partial = static_cast<Sum<T>*>(c.workspace);
    if (state.columns) {
      const int64_t tiles = ceil_div<int64_t>(state.axes.kept.count, kTileColumns);
      const unsigned grid = grid_for(tiles * state.splits.count, 1, encoder.multiprocessors());
      encoder.launch(sum_columns<T, Result<T>>, grid, dim3(kTileColumns, kTileRows), 0, state.axes,
                     in, out, partial, state.splits);
    } else {
      launch_rows(encoder, state.axes, state.whole_block, in, out, partial, state.splits);
    }
    if (state.splits.count > 1) {
      const Splits one{.count = 1, .length = state.splits.count};
      launch_rows<Sum<T>, Result<T>>(encoder, state.second, false, partial, out, nullptr, one);
    }
  });
}

/// True when value a at index i goes before b at j: NaN is the largest, the first of equals wins.
template <class C>
__device__ bool goes_before(C a, int64_t i, C b, int64_t j) {
  if constexpr (std::is_floating_point_v<C>) {
    const bool nan_a = isnan(a);
    const bool nan_b = isnan(b);
    if (nan_a != nan_b) return nan_a;
    if (nan_a) return i < j;
  }
  return a > b || (a == b && i < j);
}

/// G threads (1 or 32) look through one output's `n` values, `step` apart.
template <class T, int G>
__global__ void __launch_bounds__(kThreads)
    argmax_rows(const __grid_constant__ StridedLoop<2> kept, const T* in, int64_t* out, int64_t n,
                int64_t step) {
  using C = Compute<T>;
  constexpr int kGroups = kThreads / G;
  for (int64_t o = static_cast<int64_t>(blockIdx.x) * kGroups + threadIdx.x / G; o < kept.count;
       o += static_cast<int64_t>(gridDim.x) * kGroups) {
    int64_t at[2];
    kept.offsets(o, at);
    int64_t best = min(static_cast<int64_t>(threadIdx.x % G), n - 1);
    C value = to_compute(in[at[0] + best * step]);
    for (int64_t i = best + G; i < n; i += G) {
      const C x = to_compute(in[at[0] + i * step]);
      if (goes_before(x, i, value, best)) {
        value = x;
        best = i;
      }
    }
    for (int offset = G / 2; offset > 0; offset /= 2) {
      const C x = __shfl_xor_sync(0xffffffffU, value, offset);
      const int64_t i = __shfl_xor_sync(0xffffffffU, best, offset);
      if (goes_before(x, i, value, best)) {
        value = x;
        best = i;
      }
    }
    if (threadIdx.x % G == 0) out[at[1]] = best;
  }
}

struct ArgmaxState : KernelState {
  StridedLoop<2> kept;
  bool warp = false;  ///< a warp to an output, else a thread
};

std::shared_ptr<ArgmaxState> prepare_argmax(const ArgmaxParams& p, const Specs& s) {
  auto state = std::make_shared<ArgmaxState>();
  state->kept = split_axes(s.in[0], {p.axis}).kept;
  const int64_t step = s.in[0].strides[static_cast<int>(p.axis)];
  state->warp = state->kept.rank == 0 || step < state->kept.stride[0][0];
  return state;
}

void run_argmax(const ArgmaxParams& p, const ArgmaxState& state, const Call& c) {
  const auto axis = static_cast<int>(p.axis);
  const int64_t n = c.in[0].shape()[axis];
  const int64_t step = c.in[0].strides()[axis];
  const unsigned grid = grid_for(state.kept.count, state.warp ? kThreads / 32 : kThreads,
                                 c.encoder->multiprocessors());
  cuda_switch_all(c.in[0].dtype(), [&]<class T>() {
    c.encoder->launch(state.warp ? argmax_rows<T, 32> : argmax_rows<T, 1>, grid, kThreads, 0,
                      state.kept, c.in[0].as<const T>(), c.out[0].as<int64_t>(), n, step);
  });
}

}  // namespace

KernelList sum_cuda_kernels() {
  return {kernel<supports_all<ReduceParams>, prepare_sum, run_sum>("tree")};
}
KernelList argmax_cuda_kernels() {
  return {kernel<supports_all<ArgmaxParams>, prepare_argmax, run_argmax>("tree")};
}

}  // namespace mica
