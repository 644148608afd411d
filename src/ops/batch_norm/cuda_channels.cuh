#pragma once

// What the kernels of batch norm share: how they walk over a tensor by channels, and how parts of a
// channel become one.
#include <algorithm>

#include "mica/op/kernel.h"
#include "mica/ops/batch_norm/statistics.h"
#include "mica/runtime/cuda/check.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/programmatic_launch.cuh"
#include "mica/runtime/cuda/types.cuh"
#include "mica/runtime/runtime.h"

namespace mica {

/// Of a gradient that carries relu's before it.
Kernel batch_norm_grad_carrying_kernel();

}  // namespace mica

namespace mica::cuda::batch_norm {

inline constexpr int kThreads = 256;
/// Items of a thread in a tile, of which it has all loads under way together.
inline constexpr int kDepth = 4;
inline constexpr int kSweep = 8;  ///< most tiles of a block of an elementwise pass
inline constexpr int kElementwiseBlocks =
    3;  ///< of an elementwise pass, on a multiprocessor at least
inline constexpr int64_t kMostBlocksY = 65535;

/// How blocks walk over x (N, C, S), S being all axes after the second. `last`: channels are
/// innermost, an item is a row of C, a group is `width` channels. Otherwise planes of S elements
/// are innermost, an item is `width` elements of a channel's planes, a group is a channel.
struct Geometry {
  int64_t items = 0;
  int64_t channels = 0;
  int64_t groups = 0;
  int64_t plane = 1;  ///< items in a plane
  int64_t count = 0;  ///< elements of a channel
  cuda::Divider by_plane;
  bool narrow = true;  ///< item numbers fit the divider
  bool last = false;
  int width = 1;
  int block_x = 1;     ///< groups of a block; kThreads / block_x items at a time
  int64_t tiles = 0;   ///< a tile is some items for each thread of a block
  int splits = 1;      ///< parts of a channel: a block of the statistics has each splits-th tile
  int64_t sweep = 1;   ///< neighbouring tiles of a block of an elementwise pass; 0: each blocks-th
  int64_t blocks = 1;  ///< of an elementwise pass, for a group
};

template <bool kLast, int V>
__device__ int64_t offset_of(const Geometry& g, int64_t item, int64_t group) {
  if constexpr (kLast) {
    return item * g.channels + group * V;
  } else {
    const int64_t n =
        g.narrow ? int64_t{g.by_plane.quotient(static_cast<uint32_t>(item))} : item / g.plane;
    return (n * g.channels + group) * g.plane * V + (item - n * g.plane) * V;
  }
}

/// This thread's items in a tile: calls f(k, offset) with k below kItems.
template <bool kLast, int V, int kItems, class F>
__device__ void for_items(const Geometry& g, int64_t tile, int64_t group, F&& f) {
  const int64_t first = tile * kItems * blockDim.y + threadIdx.y;
#pragma unroll
  for (int k = 0; k < kItems; ++k) {
    const int64_t item = first + k * blockDim.y;
    if (item < g.items) f(k, offset_of<kLast, V>(g, item, group));
  }
}

/// The tiles of a block of an elementwise pass. They are taken from the end, where the pass over
/// the statistics left off: what it read last may still be in the cache.
template <class F>
__device__ void for_tiles_backwards(const Geometry& g, F&& f) {
  const bool each = g.sweep > 0;
  const int64_t step = each ? 1 : gridDim.y;
  const int64_t from = each ? int64_t{blockIdx.y} * g.sweep : blockIdx.y;
  const int64_t to = each ? min(from + g.sweep, g.tiles) : g.tiles;
  for (int64_t i = from; i < to; i += step) f(g.tiles - 1 - i);
}

/// The channel of element j of a vector.
template <bool kLast, int V>
__device__ int64_t channel_of(int64_t group, int j) {
  return kLast ? group * V + j : group;
}

/// A (C) vector that may have been left out.
template <class C>
struct PerChannel {
  C* data = nullptr;
  int64_t stride = 0;
  bool aligned = false;  ///< its numbers can be loaded by vectors
  __device__ C get(int64_t c, C otherwise) const { return data ? data[c * stride] : otherwise; }

  /// Of the channels of a vector.
  template <bool kLast, int V>
  __device__ void get(C (&numbers)[V], int64_t group, C otherwise) const {
    constexpr int kWide = V % (16 / sizeof(C)) == 0 ? 16 / sizeof(C) : 1;
    if (kLast && kWide > 1 && data && aligned) {
#pragma unroll
      for (int j = 0; j < V; j += kWide) {
        const auto some = cuda::load_vec<kWide>(data + group * V + j);
#pragma unroll
        for (int k = 0; k < kWide; ++k) numbers[j + k] = some.v[k];
      }
    } else {
#pragma unroll
      for (int j = 0; j < V; ++j) numbers[j] = get(kLast ? group * V + j : group, otherwise);
    }
  }
};

/// What x becomes before anything is added to it. One function, so that the gradient computes the
/// same bits again.
template <class C>
__device__ C normalised(C deviation, C scale, C shift) {
  return deviation * scale + shift;
}

/// Combines what the threads of a block hold for the same group and writes it as part blockIdx.y.
template <bool kLast, int V, class A>
__device__ void write_partial(const Geometry& g, int64_t group, A (&lanes)[V], A* partial) {
  constexpr int kKept = kLast ? V : 1;
  if constexpr (!kLast)
    for (int j = 1; j < V; ++j) lanes[0] = combine(lanes[0], lanes[j]);
  __shared__ A shared[kThreads * kKept];
  const int at = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x) * kKept;
  for (int j = 0; j < kKept; ++j) shared[at + j] = lanes[j];
  for (unsigned half = blockDim.y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.y < half) {
      const int other = at + static_cast<int>(half * blockDim.x) * kKept;
      for (int j = 0; j < kKept; ++j) shared[at + j] = combine(shared[at + j], shared[other + j]);
    }
  }
  if (threadIdx.y == 0 && group < g.groups)
    for (int j = 0; j < kKept; ++j)
      partial[channel_of<kLast, V>(group, j) * g.splits + blockIdx.y] = shared[at + j];
}

/// Combines the parts of channel blockIdx.x; thread 0 gets the result.
template <class A>
__device__ A combine_parts(int splits, const A* partial) {
  const int tid = static_cast<int>(threadIdx.x);
  A all = A::zero();
  for (int s = tid; s < splits; s += kThreads)
    all = combine(all, partial[int64_t{blockIdx.x} * splits + s]);
  for (int lanes = 16; lanes > 0; lanes /= 2) all = combine(all, all.shuffled(lanes));
  __shared__ A warps[kThreads / 32];
  if (tid % 32 == 0) warps[tid / 32] = all;
  __syncthreads();
  if (tid == 0)
    for (int w = 1; w < kThreads / 32; ++w) all = combine(all, warps[w]);
  return all;
}

struct BatchNormState : KernelState {
  Geometry statistics;
  Geometry elementwise;
};

inline bool channels_innermost(const TensorSpec& out) {
  return out.is_channels_last_dense() || (out.rank() == 2 && out.is_contiguous());
}

inline int64_t blocks_x(const Geometry& g) { return cuda::ceil_div<int64_t>(g.groups, g.block_x); }

inline Geometry plan_geometry(const TensorSpec& out, bool aligned) {
  Geometry g;
  g.channels = out.shape[1];
  g.last = channels_innermost(out);
  int64_t plane = 1;
  for (int i = 2; i < out.rank(); ++i) plane *= out.shape[i];
  g.count = out.shape[0] * plane;
  const auto vector = static_cast<int>(16 / size_of(out.dtype));
  g.width = aligned && (g.last ? g.channels : plane) % vector == 0 ? vector : 1;
  g.groups = g.last ? g.channels / g.width : g.channels;
  g.plane = g.last ? 1 : plane / g.width;
  g.items = g.last ? g.count : g.count / g.width;
  g.narrow = g.items < (int64_t{1} << 31);
  if (g.narrow && g.plane > 0) g.by_plane = cuda::Divider(static_cast<uint32_t>(g.plane));
  if (g.last)
    while (g.block_x < 32 && g.block_x < g.groups) g.block_x *= 2;
  return g;
}

inline Geometry with_tiles(Geometry g, int depth) {
  g.tiles = cuda::ceil_div<int64_t>(g.items * g.block_x, int64_t{kThreads} * depth);
  return g;
}

/// An elementwise pass of blocks with `sweep` tiles each, fewer where blocks would be few, more
/// where they would be more than a grid has.
inline Geometry with_sweeps(Geometry g, int depth, int64_t sweep, int multiprocessors) {
  g = with_tiles(g, depth);
  const int64_t all_tiles = g.tiles * blocks_x(g);
  g.sweep = std::clamp<int64_t>(all_tiles / (int64_t{multiprocessors} * 16), 1, sweep);
  g.sweep = std::max(g.sweep, cuda::ceil_div<int64_t>(g.tiles, kMostBlocksY));
  g.blocks = cuda::ceil_div<int64_t>(g.tiles, g.sweep);
  return g;
}

/// One of as many blocks as are resident at once.
inline Geometry with_residents(Geometry g, int depth, int residents) {
  g = with_tiles(g, depth);
  g.sweep = 0;
  g.blocks = std::clamp<int64_t>(residents / std::max<int64_t>(blocks_x(g), 1), 1,
                                 std::clamp<int64_t>(g.tiles, 1, kMostBlocksY));
  return g;
}

inline dim3 block_of(const Geometry& g) {
  return {static_cast<unsigned>(g.block_x), static_cast<unsigned>(kThreads / g.block_x)};
}
inline dim3 statistics_grid(const Geometry& g) {
  return {static_cast<unsigned>(blocks_x(g)), static_cast<unsigned>(g.splits)};
}
inline dim3 elementwise_grid(const Geometry& g) {
  return {static_cast<unsigned>(blocks_x(g)), static_cast<unsigned>(g.blocks)};
}

/// Calls f.operator()<T, kLast, V>() for the dtype and the layout.
template <class F>
void switch_layout(DType dtype, const Geometry& g, F&& f) {
  cuda::cuda_switch_float(dtype, "batch_norm", [&]<class T>() {
    constexpr int kWidth = cuda::kVec16<T>;
    if (g.last)
      g.width == 1 ? f.template operator()<T, true, 1>() : f.template operator()<T, true, kWidth>();
    else
      g.width == 1 ? f.template operator()<T, false, 1>()
                   : f.template operator()<T, false, kWidth>();
  });
}

template <class C>
PerChannel<C> per_channel(const Arg& arg) {
  if (!arg.defined()) return {};
  C* const data = arg.as<C>();
  const int64_t stride = arg.strides()[0];
  return {data, stride, stride == 1 && reinterpret_cast<uintptr_t>(data) % 16 == 0};
}

/// The inputs `big` have x's shape and are wanted as the first output lies.
inline Support supports_layout(const Specs& specs, uint32_t big) {
  const TensorSpec& out = specs.out[0];
  if (out.rank() == 4 && out.is_channels_last_dense())
    return Support::yes().with_channels_last(big);
  if (out.is_contiguous()) return Support::yes().with_contiguous(big);
  return Support::no("the output is neither row-major nor channels_last");
}

/// The statistics are taken by `kernel`, and a channel's part of them has `partial_bytes`. As many
/// blocks as are resident at once stay together on their way through the tensor.
inline void plan_statistics(BatchNormState& state, const Geometry& g, int depth, const void* kernel,
                            size_t partial_bytes, int multiprocessors) {
  int resident = 0;
  check_cuda(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, kThreads, 0));
  state.statistics = with_tiles(g, depth);
  const int64_t most = int64_t{resident} * multiprocessors;
  const int64_t wanted = most / std::max<int64_t>(blocks_x(g), 1);
  state.statistics.splits = static_cast<int>(
      std::clamp<int64_t>(std::min(wanted, state.statistics.tiles), 1, kMostBlocksY));
  state.workspace_bytes = static_cast<size_t>(state.statistics.splits) *
                          static_cast<size_t>(g.channels) * partial_bytes;
}

inline int multiprocessors(const TensorSpec& spec) {
  return runtime(DeviceKind::cuda).encoder(spec.device.index)->multiprocessors();
}

}  // namespace mica::cuda::batch_norm
