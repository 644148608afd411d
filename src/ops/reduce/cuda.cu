#include <algorithm>
#include <bit>

#include "mica/op/kernel.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/strided.cuh"

namespace mica {
namespace {

using namespace mica::cuda;

constexpr int kThreads = 256;
/// A sum is split where it has fewer blocks than this: short blocks level out at the end.
constexpr int64_t kBlocks = 4096;
constexpr int64_t kMostBlocks = 65535;
/// Rounds of loads, one after the other, that take as long as splitting and a second pass.
constexpr int64_t kRounds = 8;

/// Elements of a load where they lie side by side: 16 bytes, or 8 of one byte each.
constexpr int vector_of(size_t element_bytes) {
  return static_cast<int>(std::min<size_t>(16 / element_bytes, 8));
}
/// Loads of a thread that are under way together.
template <int V>
inline constexpr int kInFlight = V == 1 ? 8 : 4;

/// The type a sum of T is accumulated in, and for integers returned in.
template <class T>
using Sum = std::conditional_t<std::is_floating_point_v<Compute<T>>, Compute<T>, int64_t>;
template <class T>
using Result = std::conditional_t<std::is_floating_point_v<Compute<T>>, T, int64_t>;

/// Splits of the reduced axes. With more than one the sums of split s of output o go to
/// partial[o * splits + s], and a second pass adds them.
struct Splits {
  int64_t count = 1;
  int64_t length = 0;  ///< steps of a split
};

/// The kept axes (operands: in, out) and the reduced ones (in), in the input's memory order. One of
/// them may go in steps of whole vectors.
struct Axes {
  StridedLoop<2> kept;
  StridedLoop<1> reduced;
  int64_t out_step = 0;  ///< where the kept axes go in vectors: between the outputs of one
};

/// Calls `add` with the vectors of V elements at steps `first`, `first + step`, … before `end`, and
/// with zeros.
template <int V, class Index, class From, class F>
__device__ void for_each_vector(const StridedLoop<1>& loop, const From* in, Index first, Index end,
                                Index step, F add) {
  constexpr int kSteps = std::is_same_v<Index, uint32_t> ? kInFlight<V> : 1;
  for (Index r = first; r < end; r += step * kSteps) {
    Vec<From, V> x[kSteps];
#pragma unroll
    for (int j = 0; j < kSteps; ++j) {
      x[j] = {};
      const Index here = r + step * static_cast<Index>(j);
      if (here < end) {
        int64_t at[1];
        loop.offsets_as(here, at);
        x[j] = load_vec<V>(in + at[0]);
      }
    }
#pragma unroll
    for (int j = 0; j < kSteps; ++j) add(x[j]);
  }
}

/// The same from step `lane` of a split, `step` apart.
template <int V, class From, class F>
__device__ void for_each_of_split(const StridedLoop<1>& loop, const From* in, const Splits& splits,
                                  int64_t split, int lane, int step, F add) {
  const int64_t begin = split * splits.length;
  const int64_t end = ::min(begin + splits.length, loop.count);
  if (loop.narrow) {
    for_each_vector<V>(loop, in, static_cast<uint32_t>(begin + lane), static_cast<uint32_t>(end),
                       static_cast<uint32_t>(step), add);
  } else {
    for_each_vector<V>(loop, in, begin + lane, end, static_cast<int64_t>(step), add);
  }
}

template <class To, class S>
__device__ void put(To* out, S* partial, const Splits& splits, int64_t at, int64_t o, int64_t split,
                    S sum) {
  if (splits.count > 1) {
    partial[o * splits.count + split] = sum;
  } else {
    out[at] = convert<To>(sum);
  }
}

/// `group` threads (a power of two up to 32, or the block) add up one split of one output, in steps
/// of V elements.
template <class From, class To, int V>
__global__ void __launch_bounds__(kThreads)
    sum_rows(const __grid_constant__ Axes axes, const From* in, To* out, Sum<From>* partial,
             Splits splits, int group) {
  using S = Sum<From>;
  const int lane = static_cast<int>(threadIdx.x) % group;
  const int groups = kThreads / group;
  const int64_t works = axes.kept.count * splits.count;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * groups; first < works;
       first += static_cast<int64_t>(gridDim.x) * groups) {
    const int64_t w = first + static_cast<int>(threadIdx.x) / group;
    const int64_t o = splits.count > 1 ? w / splits.count : w;
    const int64_t split = w - o * splits.count;
    int64_t at[2] = {};
    S sum = 0;
    if (w < works) {
      axes.kept.offsets(o, at);
      const From* row = in + at[0];
      for_each_of_split<V>(axes.reduced, row, splits, split, lane, group,
                           [&](const Vec<From, V>& x) {
#pragma unroll
                             for (int e = 0; e < V; ++e) sum += convert<S>(x.v[e]);
                           });
      if (split == splits.count - 1) {
        const From* tail = row + axes.reduced.count * V;
        for (int64_t i = lane; i < axes.reduced.tail; i += group) sum += convert<S>(tail[i]);
      }
    }
    if (group == kThreads) {
      sum = block_sum<kThreads>(sum);
    } else {
      for (int offset = group / 2; offset > 0; offset /= 2)
        sum += __shfl_xor_sync(0xffffffffU, sum, offset);
    }
    if (lane == 0 && w < works) put(out, partial, splits, at[1], o, split, sum);
  }
}

/// A block adds up one split of `across` (a power of two) steps of the kept axes, V outputs each.
template <class From, class To, int V>
__global__ void __launch_bounds__(kThreads)
    sum_columns(const __grid_constant__ Axes axes, const From* in, To* out, Sum<From>* partial,
                Splits splits, int across) {
  using S = Sum<From>;
  __shared__ S lower[V][kThreads];
  const int x = static_cast<int>(threadIdx.x) % across;
  const int y = static_cast<int>(threadIdx.x) / across;
  const int rows = kThreads / across;
  const int64_t tiles = ceil_div<int64_t>(axes.kept.count, across);
  for (int64_t w = blockIdx.x; w < tiles * splits.count; w += gridDim.x) {
    const int64_t split = w % splits.count;
    const int64_t o = w / splits.count * across + x;
    int64_t at[2] = {};
    S sum[V] = {};
    if (o < axes.kept.count) {
      axes.kept.offsets(o, at);
      for_each_of_split<V>(axes.reduced, in + at[0], splits, split, y, rows,
                           [&](const Vec<From, V>& v) {
#pragma unroll
                             for (int e = 0; e < V; ++e) sum[e] += convert<S>(v.v[e]);
                           });
    }
    for (int half = rows / 2; half > 0; half /= 2) {  // the lower half's sums go to the upper
#pragma unroll
      for (int e = 0; e < V; ++e)
        if (y >= half) lower[e][threadIdx.x] = sum[e];
      __syncthreads();
#pragma unroll
      for (int e = 0; e < V; ++e)
        if (y < half) sum[e] += lower[e][static_cast<int>(threadIdx.x) + half * across];
      __syncthreads();
    }
    if (y == 0 && o < axes.kept.count) {
#pragma unroll
      for (int e = 0; e < V; ++e)
        put(out, partial, splits, at[1] + e * axes.out_step, o * V + e, split, sum[e]);
    }
  }
}

struct SumState : KernelState {
  Axes axes;
  Axes second;  ///< of the pass over the splits' sums
  Splits splits;
  bool columns = false;
  bool vectors = false;
  int width = 1;         ///< columns: `across`, else `group`
  int second_width = 1;  ///< `group` of the second pass
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

bool whole_vectors(const int64_t* strides, int rank, int v) {
  return std::all_of(strides, strides + rank, [v](int64_t stride) { return stride % v == 0; });
}

/// Makes the kept axes go in steps of `v` elements of the input, where it lies so.
bool vectorize_kept(Axes& axes, int v) {
  StridedLoop<2>& kept = axes.kept;
  if (kept.stride[0][0] != 1 || kept.size[0] % v != 0 ||
      !whole_vectors(kept.stride[0] + 1, kept.rank - 1, v) ||
      !whole_vectors(axes.reduced.stride[0], axes.reduced.rank, v))
    return false;
  axes.out_step = kept.stride[1][0];
  kept.stride[0][0] *= v;
  kept.stride[1][0] *= v;
  kept.size[0] /= v;
  kept.count /= v;
  if (kept.narrow) kept.divider[0] = Divider(static_cast<uint32_t>(kept.size[0]));
  return true;
}

/// Threads for each of `works` sums of `length` loads, so that a thread has a few under way.
int group_for(int64_t works, int64_t length, int in_flight) {
  const auto wanted = static_cast<uint64_t>(ceil_div<int64_t>(length, in_flight));
  if (wanted <= 32) return static_cast<int>(std::bit_ceil(std::max<uint64_t>(wanted, 1)));
  return works < kBlocks * (kThreads / 32) ? kThreads : 32;
}

/// Columns of a block: long stretches side by side; narrower where that makes a second pass
/// unnecessary, wider where there are too few rows for all threads.
int across_for(int64_t columns, int64_t length, bool vectors) {
  const int in_flight = vectors ? kInFlight<2> : kInFlight<1>;
  const int64_t least = vectors ? 8 : 32;
  int64_t across = 32;
  while (across < kThreads && length * across < in_flight * kThreads) across *= 2;
  if (length * least < kRounds * in_flight * kThreads)
    while (across > least && columns / across < kBlocks / 16) across /= 2;
  return static_cast<int>(
      std::min(static_cast<uint64_t>(across), std::bit_ceil(static_cast<uint64_t>(columns))));
}

std::shared_ptr<SumState> prepare_sum(const ReduceParams& p, const Specs& s) {
  auto state = std::make_shared<SumState>();
  Axes& axes = state->axes;
  Splits& splits = state->splits;
  axes = split_axes(s.in[0], p.axes);
  const StridedLoop<2> kept = axes.kept;
  if (kept.count == 0 || axes.reduced.count == 0) return state;
  // Neighbouring threads read neighbouring elements; a few columns are summed as strided rows.
  constexpr int64_t kFewColumns = 8;
  state->columns = kept.rank > 0 && kept.size[0] >= kFewColumns &&
                   (axes.reduced.rank == 0 || kept.stride[0][0] < axes.reduced.stride[0][0]);
  const int v = vector_of(size_of(s.in[0].dtype));
  if (s.in[0].aligned)
    state->vectors = state->columns ? vectorize_kept(axes, v)
                                    : whole_vectors(kept.stride[0], kept.rank, v) &&
                                          axes.reduced.vectorize(v, {true});
  const int in_flight = state->vectors ? kInFlight<2> : kInFlight<1>;
  const int64_t length = axes.reduced.count;
  splits.length = length;
  int64_t blocks = kept.count;
  int64_t rows = kThreads;  // threads that share a sum
  if (state->columns) {
    state->width = across_for(axes.kept.count, length, state->vectors);
    blocks = ceil_div<int64_t>(axes.kept.count, state->width);
    rows = kThreads / state->width;
  }
  const int64_t round = rows * in_flight;
  const int64_t wanted = std::min(kBlocks / blocks, length / (2 * round));
  if (wanted > 1 && length >= kRounds * round) {
    splits.length = ceil_div(length, wanted);
    splits.count = ceil_div(length, splits.length);
    // The sums lie in the order in which the kept axes are walked, those of an output side by side.
    state->second = {.kept = kept, .reduced = strided_loop<1>({splits.count}, {Strides{1}})};
    int64_t stride = splits.count;
    for (int d = 0; d < kept.rank; ++d) {
      state->second.kept.stride[0][d] = stride;
      stride *= kept.size[d];
    }
    state->second_width = group_for(kept.count, splits.count, kInFlight<1>);
    state->workspace_bytes = static_cast<size_t>(kept.count * splits.count) * sizeof(int64_t);
  }
  if (!state->columns)
    state->width = group_for(kept.count * splits.count, splits.length, in_flight);
  return state;
}

unsigned grid_of(int64_t works, int per_block) {
  return static_cast<unsigned>(std::min(ceil_div<int64_t>(works, per_block), kMostBlocks));
}

template <class From, class To, int V>
void launch_sum(Encoder& encoder, const SumState& s, const From* in, To* out, Sum<From>* partial) {
  if (s.columns) {
    const int64_t tiles = ceil_div<int64_t>(s.axes.kept.count, s.width);
    encoder.launch(sum_columns<From, To, V>, grid_of(tiles * s.splits.count, 1), kThreads, 0,
                   s.axes, in, out, partial, s.splits, s.width);
  } else {
    encoder.launch(sum_rows<From, To, V>,
                   grid_of(s.axes.kept.count * s.splits.count, kThreads / s.width), kThreads, 0,
                   s.axes, in, out, partial, s.splits, s.width);
  }
}

void run_sum(const ReduceParams&, const SumState& s, const Call& c) {
  cuda_switch_all(c.in[0].dtype(), [&]<class T>() {
    using To = Result<T>;
    const T* in = c.in[0].as<const T>();
    To* out = c.out[0].as<To>();
    auto* partial = static_cast<Sum<T>*>(c.workspace);
    if (s.vectors) {
      launch_sum<T, To, vector_of(sizeof(T))>(*c.encoder, s, in, out, partial);
    } else {
      launch_sum<T, To, 1>(*c.encoder, s, in, out, partial);
    }
    if (s.splits.count > 1) {
      const Splits one{.count = 1, .length = s.splits.count};
      c.encoder->launch(sum_rows<Sum<T>, To, 1>,
                        grid_of(s.second.kept.count, kThreads / s.second_width), kThreads, 0,
                        s.second, partial, out, nullptr, one, s.second_width);
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
    int64_t best = ::min(static_cast<int64_t>(threadIdx.x % G), n - 1);
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
