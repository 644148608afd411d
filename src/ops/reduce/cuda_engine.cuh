#pragma once

#include "mica/op/kernel.h"
#include "mica/ops/reduce/cuda_source.cuh"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/strided.cuh"

// One engine for every reduction. An op is a struct with
//   Source source;                        how elements are read (cuda_source.cuh)
//   Acc identity() const;                 trivially copyable, a multiple of 4 bytes
//   void take(Acc&, const Value (&x)[N], int64_t index, Value first) const;
//       adds N elements, of which the first is number `index` of those of its result; `first` is
//       the first element of the result where kFirst is true. Numbers grow within a thread.
//   void merge(Acc& a, const Acc& b) const;
//   void put(void* out, int64_t at, const Acc&) const;
// The order in which values are combined depends on the shapes alone.
namespace mica::cuda {

constexpr int kReduceThreads = 256;
constexpr int kVectorsInFlight = 4;   ///< loads of 16 bytes of a thread that are under way together
constexpr int kElementsInFlight = 8;  ///< loads of single elements
constexpr int kTileBytes = 16 * kReduceThreads * kVectorsInFlight;

/// Splits of the reduced axes. With more than one the result of split s of output o goes to
/// partial[o * count + s], and a second pass combines them.
struct Splits {
  int64_t count = 1;
  int64_t length = 0;  ///< steps of a split
};

/// The kept axes (operands: in, out) and the reduced ones (in), in the input's memory order. One of
/// them may go in steps of whole vectors.
struct ReduceAxes {
  StridedLoop<2> kept;
  StridedLoop<1> reduced;
  int64_t out_step = 0;  ///< where the kept axes go in vectors: between the outputs of one
};

/// Short rows side by side, which blocks bring into shared memory together.
struct ReduceTile {
  int64_t rows = 0;  ///< of all
  int length = 0;    ///< elements of a row
  int height = 0;    ///< rows of a tile, which starts on a 16-byte boundary
  int group = 1;     ///< threads of a row, a power of two up to 32
  int64_t out_step = 1;
};

struct ReducePlan : KernelState {
  enum class Way { rows, columns, tiles };
  Way way = Way::rows;
  ReduceAxes axes;
  StridedLoop<2> outputs;  ///< of the pass over the splits: the kept axes, one by one
  ReduceTile tile;
  Splits splits;
  bool vectors = false;
  int width = 1;         ///< columns: those of a block, else threads of a row
  int second_width = 1;  ///< threads of a result in the second pass
};

/// `in` reduced over `axes` to a row-major output. `vector_columns`: the source reads neighbouring
/// columns in vectors.
std::shared_ptr<ReducePlan> plan_reduction(const TensorSpec& in, const Dims& axes, size_t acc_bytes,
                                           bool vector_columns);
unsigned reduce_grid(int64_t works, int per_block);

/// Offsets of all operands at step `index`, as by StridedLoop::offsets, in a loop that is not
/// unrolled: it stands in many places of each kernel. One dimension, the usual case, goes without.
template <int N>
__device__ void find_offsets(const StridedLoop<N>& loop, int64_t index, int64_t (&at)[N]) {
#pragma unroll
  for (int k = 0; k < N; ++k) at[k] = 0;
  int d = 0;
#pragma unroll 1
  for (; d < loop.rank - 1; ++d) {
    const int64_t rest =
        loop.narrow ? loop.divider[d].quotient(static_cast<uint32_t>(index)) : index / loop.size[d];
    const int64_t here = index - rest * loop.size[d];
#pragma unroll
    for (int k = 0; k < N; ++k) at[k] += here * loop.stride[k][d];
    index = rest;
  }
#pragma unroll
  for (int k = 0; k < N; ++k) at[k] += index * loop.stride[k][d];
}

template <class Acc>
__device__ Acc shuffle_xor(const Acc& a, int offset) {
  static_assert(sizeof(Acc) % 4 == 0);
  uint32_t words[sizeof(Acc) / 4];
  memcpy(words, &a, sizeof a);
#pragma unroll
  for (uint32_t& w : words) w = __shfl_xor_sync(0xffffffffU, w, offset);
  Acc b;
  memcpy(&b, words, sizeof b);
  return b;
}

/// Combines the values of neighbouring lanes; the first of each `group` gets the result.
template <class Op>
__device__ void merge_lanes(const Op& op, typename Op::Acc& acc, int group) {
  for (int offset = group / 2; offset > 0; offset /= 2) op.merge(acc, shuffle_xor(acc, offset));
}

/// Combines the values of a block; thread 0 gets the result.
template <class Op>
__device__ void merge_block(const Op& op, typename Op::Acc& acc) {
  constexpr int kWarps = kReduceThreads / 32;
  alignas(16) __shared__ unsigned char memory[kWarps * sizeof(typename Op::Acc)];
  auto* of_warps = reinterpret_cast<typename Op::Acc*>(memory);
  merge_lanes(op, acc, 32);
  __syncthreads();  // an earlier call may still be reading
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = acc;
  __syncthreads();
  if (threadIdx.x == 0)
    for (int w = 1; w < kWarps; ++w) op.merge(acc, of_warps[w]);
}

/// Calls `use(load(r), r)` for r = first, first + step, … before `end`, kSteps loads at a time.
template <int kSteps, class Load, class Use>
__device__ void for_each_step(int64_t first, int64_t end, int64_t step, Load load, Use use) {
  for (int64_t r = first; r < end; r += step * kSteps) {
    decltype(load(r)) x[kSteps] = {};
#pragma unroll
    for (int j = 0; j < kSteps; ++j)
      if (r + j * step < end) x[j] = load(r + j * step);
#pragma unroll
    for (int j = 0; j < kSteps; ++j)
      if (r + j * step < end) use(x[j], r + j * step);
  }
}

template <class Op>
__device__ void put_or_keep(const Op& op, void* out, typename Op::Acc* partial,
                            const Splits& splits, int64_t at, int64_t o, int64_t split,
                            const typename Op::Acc& acc) {
  if (splits.count > 1) {
    partial[o * splits.count + split] = acc;
  } else {
    op.put(out, at, acc);
  }
}

/// `group` threads (a power of two up to 32, or the block) reduce one split of one output.
template <class Op>
__global__ void __launch_bounds__(kReduceThreads, 4)
    reduce_rows(const __grid_constant__ ReduceAxes axes, Op op, const char* in, void* out,
                typename Op::Acc* partial, Splits splits, int group, bool vectors) {
  using Value = typename Op::Value;
  const int bytes = op.source.bytes();
  const int lane = static_cast<int>(threadIdx.x) % group;
  const int groups = kReduceThreads / group;
  const int64_t works = axes.kept.count * splits.count;
  const auto at_step = [&](const char* row, int64_t r) {
    int64_t at[1];
    find_offsets(axes.reduced, r, at);
    return row + at[0] * bytes;
  };
  for (int64_t start = static_cast<int64_t>(blockIdx.x) * groups; start < works;
       start += static_cast<int64_t>(gridDim.x) * groups) {
    const int64_t w = start + static_cast<int>(threadIdx.x) / group;
    const int64_t o = splits.count > 1 ? w / splits.count : w;
    const int64_t split = w - o * splits.count;
    int64_t at[2] = {};
    auto acc = op.identity();
    if (w < works) {
      find_offsets(axes.kept, o, at);
      const char* row = in + at[0] * bytes;
      const int64_t begin = split * splits.length;
      const int64_t end = ::min(begin + splits.length, axes.reduced.count);
      Value first{};
      if constexpr (Op::kFirst) {
        if (axes.reduced.count > 0) first = op.source.one(row);
      }
      if (vectors) {
        const int v = 16 / bytes;
        for_each_step<kVectorsInFlight>(
            begin + lane, end, group,
            [&](int64_t r) { return *reinterpret_cast<const uint4*>(at_step(row, r)); },
            [&](const uint4& raw, int64_t r) {
              op.source.unpack(raw, [&](const auto& x) { op.take(acc, x, r * v, first); });
            });
        if (split == splits.count - 1) {
          const int64_t whole = axes.reduced.count * v;
          for (int64_t i = lane; i < axes.reduced.tail; i += group) {
            const Value one[1] = {op.source.one(row + (whole + i) * bytes)};
            op.take(acc, one, whole + i, first);
          }
        }
      } else {
        for_each_step<kElementsInFlight>(
            begin + lane, end, group, [&](int64_t r) { return op.source.one(at_step(row, r)); },
            [&](Value x, int64_t r) {
              const Value one[1] = {x};
              op.take(acc, one, r, first);
            });
      }
    }
    if (group == kReduceThreads) {
      merge_block(op, acc);
    } else {
      merge_lanes(op, acc, group);
    }
    if (lane == 0 && w < works) put_or_keep(op, out, partial, splits, at[1], o, split, acc);
  }
}

/// A block reduces one split of `across` (a power of two) steps of the kept axes, V outputs each.
template <class Op, int V>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_columns(const __grid_constant__ ReduceAxes axes, Op op, const char* in, void* out,
                   typename Op::Acc* partial, Splits splits, int across) {
  using Acc = typename Op::Acc;
  using Value = typename Op::Value;
  alignas(16) __shared__ unsigned char memory[V * kReduceThreads * sizeof(Acc)];
  auto* upper = reinterpret_cast<Acc*>(memory);  // [V][kReduceThreads]
  const int bytes = op.source.bytes();
  const int thread = static_cast<int>(threadIdx.x);
  const int x = thread % across;
  const int y = thread / across;
  const int rows = kReduceThreads / across;
  const int64_t tiles = ceil_div<int64_t>(axes.kept.count, across);
  for (int64_t w = blockIdx.x; w < tiles * splits.count; w += gridDim.x) {
    const int64_t split = w % splits.count;
    const int64_t o = w / splits.count * across + x;
    int64_t at[2] = {};
    Acc acc[V];
#pragma unroll
    for (int e = 0; e < V; ++e) acc[e] = op.identity();
    if (o < axes.kept.count) {
      find_offsets(axes.kept, o, at);
      const char* column = in + at[0] * bytes;
      const auto load = [&](int64_t r) {
        int64_t to[1];
        find_offsets(axes.reduced, r, to);
        const char* p = column + to[0] * bytes;
        if constexpr (V == 1) {
          return op.source.one(p);
        } else {
          return *reinterpret_cast<const uint4*>(p);
        }
      };
      const auto for_each_column = [&](const auto& loaded, auto f) {
        if constexpr (V == 1) {
          f(loaded, 0);
        } else {
          op.source.unpack(loaded, [&](const auto& values) {
#pragma unroll
            for (int e = 0; e < V; ++e) f(values[e], e);
          });
        }
      };
      const int64_t begin = split * splits.length;
      const int64_t end = ::min(begin + splits.length, axes.reduced.count);
      Value first[V] = {};
      if constexpr (Op::kFirst) for_each_column(load(0), [&](Value v, int e) { first[e] = v; });
      for_each_step<V == 1 ? kElementsInFlight : kVectorsInFlight>(
          begin + y, end, rows, load, [&](const auto& loaded, int64_t r) {
            for_each_column(loaded, [&](Value v, int e) {
              const Value one[1] = {v};
              op.take(acc[e], one, r, first[e]);
            });
          });
    }
    for (int half = rows / 2; half > 0; half /= 2) {  // of the rows the upper half joins the lower
#pragma unroll
      for (int e = 0; e < V; ++e)
        if (y >= half) upper[e * kReduceThreads + thread] = acc[e];
      __syncthreads();
#pragma unroll
      for (int e = 0; e < V; ++e)
        if (y < half) op.merge(acc[e], upper[e * kReduceThreads + thread + half * across]);
      __syncthreads();
    }
    if (y == 0 && o < axes.kept.count) {
#pragma unroll
      for (int e = 0; e < V; ++e)
        put_or_keep(op, out, partial, splits, at[1] + e * axes.out_step, o * V + e, split, acc[e]);
    }
  }
}

/// Where byte b of a tile lies: rows whose length is a power of two start in different banks.
__device__ inline int in_tile(int b) { return b + b / 128 * 16; }

/// A block brings a tile of rows into shared memory, as one stretch, and reduces them there.
template <class Op>
__global__ void __launch_bounds__(kReduceThreads, 4)
    reduce_tiles(ReduceTile tile, Op op, const char* in, void* out) {
  alignas(16) __shared__ unsigned char memory[kTileBytes + kTileBytes / 128 * 16];
  const int bytes = op.source.bytes();
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % tile.group;
  const int64_t tiles = ceil_div<int64_t>(tile.rows, tile.height);
  for (int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const int64_t first_row = t * tile.height;
    const auto height = static_cast<int>(::min(tile.rows - first_row, int64_t{tile.height}));
    const int stretch = height * tile.length * bytes;
    const char* from = in + first_row * tile.length * bytes;
    uint4 x[kVectorsInFlight];
#pragma unroll
    for (int j = 0; j < kVectorsInFlight; ++j) {
      const int b = (j * kReduceThreads + thread) * 16;
      if (b + 16 <= stretch) x[j] = *reinterpret_cast<const uint4*>(from + b);
    }
    __syncthreads();  // the tile before may still be read
#pragma unroll
    for (int j = 0; j < kVectorsInFlight; ++j) {
      const int b = (j * kReduceThreads + thread) * 16;
      if (b + 16 <= stretch) *reinterpret_cast<uint4*>(memory + in_tile(b)) = x[j];
    }
    if (thread < stretch % 16) {  // after the last whole vector
      const int b = stretch / 16 * 16 + thread;
      memory[in_tile(b)] = static_cast<unsigned char>(from[b]);
    }
    __syncthreads();
    // Lanes of a warp stay together: they shuffle.
    const int step = kReduceThreads / tile.group;
    for (int start = 0; start < height; start += step) {
      const int row = start + thread / tile.group;
      auto acc = op.identity();
      if (row < height) {
        const int base = row * tile.length;
        const auto at = [&](int i) { return op.source.one(memory + in_tile((base + i) * bytes)); };
        typename Op::Value first{};
        if constexpr (Op::kFirst) first = at(0);
#pragma unroll 4
        for (int i = lane; i < tile.length; i += tile.group) {
          const typename Op::Value one[1] = {at(i)};
          op.take(acc, one, i, first);
        }
      }
      merge_lanes(op, acc, tile.group);
      if (lane == 0 && row < height) op.put(out, (first_row + row) * tile.out_step, acc);
    }
  }
}

/// The second pass: `group` threads (a power of two up to 32, or the block) combine the splits of
/// an output.
template <class Op>
__global__ void __launch_bounds__(kReduceThreads)
    reduce_splits(const __grid_constant__ StridedLoop<2> outputs, Op op,
                  const typename Op::Acc* partial, void* out, int64_t splits, int group) {
  const int lane = static_cast<int>(threadIdx.x) % group;
  const int groups = kReduceThreads / group;
  for (int64_t start = static_cast<int64_t>(blockIdx.x) * groups; start < outputs.count;
       start += static_cast<int64_t>(gridDim.x) * groups) {
    const int64_t o = start + static_cast<int>(threadIdx.x) / group;
    auto acc = op.identity();
    if (o < outputs.count) {
#pragma unroll 4
      for (int64_t s = lane; s < splits; s += group) op.merge(acc, partial[o * splits + s]);
    }
    if (group == kReduceThreads) {
      merge_block(op, acc);
    } else {
      merge_lanes(op, acc, group);
    }
    if (lane == 0 && o < outputs.count) {
      int64_t at[2];
      find_offsets(outputs, o, at);
      op.put(out, at[1], acc);
    }
  }
}

/// Launches the passes of a plan.
template <class Op>
void reduce(const ReducePlan& s, const Op& op, const Call& c) {
  const auto* in = c.in[0].as<const char>();
  void* out = c.out[0].data;
  auto* partial = static_cast<typename Op::Acc*>(c.workspace);
  Encoder& encoder = *c.encoder;
  if (s.way == ReducePlan::Way::tiles) {
    encoder.launch(reduce_tiles<Op>, reduce_grid(s.tile.rows, s.tile.height), kReduceThreads, 0,
                   s.tile, op, in, out);
    return;
  }
  if (s.way == ReducePlan::Way::columns) {
    const int64_t tiles = ceil_div<int64_t>(s.axes.kept.count, s.width);
    const unsigned grid = reduce_grid(tiles * s.splits.count, 1);
    const auto kernel = s.vectors ? reduce_columns<Op, Op::Source::kVector> : reduce_columns<Op, 1>;
    encoder.launch(kernel, grid, kReduceThreads, 0, s.axes, op, in, out, partial, s.splits,
                   s.width);
  } else {
    encoder.launch(reduce_rows<Op>,
                   reduce_grid(s.axes.kept.count * s.splits.count, kReduceThreads / s.width),
                   kReduceThreads, 0, s.axes, op, in, out, partial, s.splits, s.width, s.vectors);
  }
  if (s.splits.count > 1)
    encoder.launch(reduce_splits<Op>, reduce_grid(s.outputs.count, kReduceThreads / s.second_width),
                   kReduceThreads, 0, s.outputs, op, partial, out, s.splits.count, s.second_width);
}

}  // namespace mica::cuda
