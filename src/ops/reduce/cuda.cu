#include <algorithm>
#include <bit>

#include "mica/ops/reduce/cuda_engine.cuh"
#include "mica/ops/reduce/reduce.h"

// Sums, products and counts, and how any reduction is laid out.
namespace mica {
namespace cuda {
namespace {

/// Blocks that a large GPU runs at once; a few results are split so that each block has one share.
constexpr int64_t kWave = 1056;
/// More results are split until there are so many blocks: short ones level out at the end.
constexpr int64_t kBlocks = 4096;
constexpr int64_t kMostBlocks = 65535;
/// Rounds of loads, one after the other, that take as long as splitting and a second pass.
constexpr int64_t kRounds = 8;
constexpr int64_t kFewColumns = 8;       ///< are reduced as strided rows
constexpr int64_t kShortRow = 2048;      ///< bytes of a row that tiles are better for
constexpr int64_t kShortVectors = 1024;  ///< the same where a row is whole 16-byte vectors

/// The axes of `in` that are not in `reduced`, and those that are; the output is row-major.
ReduceAxes split_axes(const TensorSpec& in, const Dims& reduced) {
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
bool vectorize_kept(ReduceAxes& axes, int v) {
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

/// Rows without gaps between them that are too short for a few vectors of each thread.
bool make_tile(const ReduceAxes& axes, int bytes, ReduceTile& tile) {
  const StridedLoop<2>& kept = axes.kept;
  const StridedLoop<1>& reduced = axes.reduced;
  if (kept.rank != 1 || reduced.rank != 1 || reduced.stride[0][0] != 1 ||
      kept.stride[0][0] != reduced.count)
    return false;
  const int64_t row = reduced.count * bytes;
  if (row > kShortRow || (row % 16 == 0 && row >= kShortVectors)) return false;
  tile.rows = kept.count;
  tile.length = static_cast<int>(reduced.count);
  tile.out_step = kept.stride[1][0];
  const int whole = 16 / bytes;  // so many rows end on a 16-byte boundary
  tile.height = kTileBytes / (tile.length * bytes) / whole * whole;
  if (tile.height == 0) return false;
  const int share = std::max(1, kReduceThreads / tile.height);
  tile.group = static_cast<int>(std::min({std::bit_floor(static_cast<unsigned>(share)), 32U,
                                          std::bit_ceil(static_cast<unsigned>(tile.length))}));
  return true;
}

/// Threads for each of `works` results of `length` loads, so that a thread has a few under way.
int group_for(int64_t works, int64_t length, int in_flight) {
  const auto wanted = static_cast<uint64_t>(ceil_div<int64_t>(length, in_flight));
  if (wanted <= 32) return static_cast<int>(std::bit_ceil(std::max<uint64_t>(wanted, 1)));
  // A block has fewer loads under way than its warps with a row each, unless rows are long.
  const bool fills_block = length >= int64_t{kReduceThreads} * in_flight;
  const int64_t many = fills_block ? kBlocks * (kReduceThreads / 32) : kWave / 2;
  return works < many ? kReduceThreads : 32;
}

/// Columns of a block: long stretches side by side; narrower where that makes a second pass
/// unnecessary, wider where there are too few rows for all threads.
int across_for(int64_t columns, int64_t length, bool vectors) {
  const int in_flight = vectors ? kVectorsInFlight : kElementsInFlight;
  const int64_t least = vectors ? 8 : 32;
  int64_t across = 32;
  while (across < kReduceThreads && length * across < in_flight * kReduceThreads) across *= 2;
  if (length * least < kRounds * in_flight * kReduceThreads)
    while (across > least && columns / across < kBlocks / 16) across /= 2;
  return static_cast<int>(
      std::min(static_cast<uint64_t>(across), std::bit_ceil(static_cast<uint64_t>(columns))));
}

}  // namespace

std::shared_ptr<ReducePlan> plan_reduction(const TensorSpec& in, const Dims& reduced_axes,
                                           size_t acc_bytes, bool vector_columns) {
  auto plan = std::make_shared<ReducePlan>();
  ReduceAxes& axes = plan->axes;
  Splits& splits = plan->splits;
  axes = split_axes(in, reduced_axes);
  const StridedLoop<2> kept = axes.kept;
  plan->outputs = kept;
  if (kept.count == 0 || axes.reduced.count == 0) return plan;
  const auto bytes = static_cast<int>(size_of(in.dtype));
  const int v = 16 / bytes;
  // Neighbouring threads read neighbouring elements.
  const bool columns = kept.rank > 0 && kept.size[0] >= kFewColumns &&
                       (axes.reduced.rank == 0 || kept.stride[0][0] < axes.reduced.stride[0][0]);
  if (columns) {
    plan->way = ReducePlan::Way::columns;
    plan->vectors = in.aligned && vector_columns && vectorize_kept(axes, v);
  } else if (in.aligned && make_tile(axes, bytes, plan->tile)) {
    plan->way = ReducePlan::Way::tiles;
    return plan;
  } else {
    plan->vectors = in.aligned && whole_vectors(kept.stride[0], kept.rank, v) &&
                    axes.reduced.vectorize(v, {true});
  }
  const int in_flight = plan->vectors ? kVectorsInFlight : kElementsInFlight;
  const int64_t length = axes.reduced.count;
  splits.length = length;
  int64_t blocks = kept.count;
  int64_t rows = kReduceThreads;  // threads that share a result
  if (columns) {
    plan->width = across_for(axes.kept.count, length, plan->vectors);
    blocks = ceil_div<int64_t>(axes.kept.count, plan->width);
    rows = kReduceThreads / plan->width;
  }
  const int64_t round = rows * in_flight;
  const int64_t most = 8 * blocks <= kWave ? kWave : kBlocks;
  const int64_t wanted = std::min(most / blocks, length / (2 * round));
  if (wanted > 1 && length >= kRounds * round) {
    splits.length = ceil_div(length, wanted);
    splits.count = ceil_div(length, splits.length);
    plan->second_width = group_for(kept.count, splits.count, kVectorsInFlight);
    plan->workspace_bytes = static_cast<size_t>(kept.count * splits.count) * acc_bytes;
  }
  if (!columns) plan->width = group_for(kept.count * splits.count, splits.length, in_flight);
  return plan;
}

unsigned reduce_grid(int64_t works, int per_block) {
  return static_cast<unsigned>(std::min(ceil_div<int64_t>(works, per_block), kMostBlocks));
}

}  // namespace cuda

namespace {

using namespace mica::cuda;

template <class S>
struct Sum {
  using Source = S;
  using Value = typename S::Value;
  using Acc = Value;
  static constexpr bool kFirst = false;
  S source;

  __device__ Acc identity() const { return 0; }
  template <int N>
  __device__ void take(Acc& acc, const Value (&x)[N], int64_t, Value) const {
#pragma unroll
    for (int e = 0; e < N; ++e) acc += x[e];
  }
  __device__ void merge(Acc& a, const Acc& b) const { a += b; }
  __device__ void put(void* out, int64_t at, Acc acc) const { source.store(out, at, acc); }
};

/// Products of many floats near 1 are exact to float only when they are taken in double.
template <class S>
struct Product {
  using Source = S;
  using Value = typename S::Value;
  using Acc = std::conditional_t<std::is_floating_point_v<Value>, double, int64_t>;
  static constexpr bool kFirst = false;
  S source;

  __device__ Acc identity() const { return 1; }
  template <int N>
  __device__ void take(Acc& acc, const Value (&x)[N], int64_t, Value) const {
#pragma unroll
    for (int e = 0; e < N; ++e) acc *= static_cast<Acc>(x[e]);
  }
  __device__ void merge(Acc& a, const Acc& b) const { a *= b; }
  __device__ void put(void* out, int64_t at, Acc acc) const {
    source.store(out, at, static_cast<Value>(acc));
  }
};

/// What an op makes of the number of elements that are not zero.
enum class Wanted { any, all, count };

struct Count {
  using Source = Presence;
  using Value = int;
  using Acc = int64_t;
  static constexpr bool kFirst = false;
  Presence source;
  Wanted wanted;
  int64_t total;

  __device__ Acc identity() const { return 0; }
  template <int N>
  __device__ void take(Acc& acc, const int (&x)[N], int64_t, int) const {
    int sum = 0;
#pragma unroll
    for (int e = 0; e < N; ++e) sum += x[e];
    acc += sum;
  }
  __device__ void merge(Acc& a, const Acc& b) const { a += b; }
  __device__ void put(void* out, int64_t at, Acc acc) const {
    if (wanted == Wanted::count) {
      static_cast<int64_t*>(out)[at] = acc;
    } else {
      static_cast<bool*>(out)[at] = wanted == Wanted::any ? acc > 0 : acc == total;
    }
  }
};

std::shared_ptr<ReducePlan> prepare(const ReduceParams& p, const Specs& s) {
  return plan_reduction(s.in[0], p.axes, sizeof(double), is_floating(s.in[0].dtype));
}

/// Sums and products of integers are of 64 bits.
struct WideIntegers : Integers {
  __device__ void store(void* out, int64_t at, int64_t x) const {
    static_cast<int64_t*>(out)[at] = x;
  }
};

template <template <class> class Op>
void run_fold(const ReduceParams&, const ReducePlan& plan, const Call& c) {
  const DType t = c.in[0].dtype();
  if (!is_floating(t)) return reduce(plan, Op<WideIntegers>{{Integers::of(t)}}, c);
  with_float_source(t, [&](auto source) { reduce(plan, Op<decltype(source)>{source}, c); });
}

std::shared_ptr<ReducePlan> prepare_count(const ReduceParams& p, const Specs& s) {
  return plan_reduction(s.in[0], p.axes, sizeof(int64_t), false);
}

template <Wanted wanted>
void run_count(const ReduceParams& p, const ReducePlan& plan, const Call& c) {
  const DType t = c.in[0].dtype();
  const auto bytes = static_cast<int>(size_of(t));
  uint64_t mask = ~uint64_t{0} >> (64 - 8 * bytes);
  if (is_floating(t)) mask >>= 1;  // -0 is a zero
  int64_t total = 1;
  for (const int64_t axis : p.axes) total *= c.in[0].shape()[static_cast<int>(axis)];
  reduce(plan, Count{{bytes, mask}, wanted, total}, c);
}

template <Wanted wanted>
KernelList count_kernels() {
  return {kernel<supports_all<ReduceParams>, prepare_count, run_count<wanted>>("tree")};
}

}  // namespace

KernelList sum_cuda_kernels() {
  return {kernel<supports_all<ReduceParams>, prepare, run_fold<Sum>>("tree")};
}
KernelList prod_cuda_kernels() {
  return {kernel<supports_all<ReduceParams>, prepare, run_fold<Product>>("tree")};
}
KernelList any_cuda_kernels() { return count_kernels<Wanted::any>(); }
KernelList all_cuda_kernels() { return count_kernels<Wanted::all>(); }
KernelList count_nonzero_cuda_kernels() { return count_kernels<Wanted::count>(); }

}  // namespace mica
