#pragma once

#include <algorithm>
#include <bit>

#include "mica/ops/grid_sample/taps.h"
#include "mica/ops/layouts.h"
#include "mica/runtime/cuda/types.cuh"

// What the CUDA kernels of grid_sample and its gradient share.
namespace mica::cuda::grid_points {

inline constexpr int kThreads = 256;

/// Sizes of a call and how images lie; channels are counted, and offsets given, in vectors.
struct Layout {
  int64_t images, channels, pixels;
  int64_t points;  ///< of an image
  int height, width;
  bool last;   ///< channels are innermost
  int vector;  ///< channels side by side that are accessed together

  Layout(const TensorSpec& x, const TensorSpec& grid, bool channels_last, int v)
      : images(x.shape[0]),
        channels(x.shape[1] / v),
        pixels(x.shape[2] * x.shape[3]),
        points(grid.shape[1] * grid.shape[2]),
        height(static_cast<int>(x.shape[2])),
        width(static_cast<int>(x.shape[3])),
        last(channels_last),
        vector(v) {}

  __host__ __device__ int64_t all_points() const { return images * points; }
  __device__ int64_t in_x(int64_t image, int64_t channel, int64_t pixel) const {
    return image * channels * pixels +
           (last ? pixel * channels + channel : channel * pixels + pixel);
  }
  __device__ int64_t in_y(int64_t image, int64_t channel, int64_t point) const {
    return image * channels * points +
           (last ? point * channels + channel : channel * points + point);
  }
};

/// The layout of x and the first output, in vectors where channels are innermost and allow it.
inline Layout layout_of(const TensorSpec& x, const TensorSpec& grid, const TensorSpec& out,
                        bool aligned) {
  const auto v = static_cast<int>(16 / size_of(x.dtype));
  const bool last = out.is_channels_last();
  return {x, grid, last, last && aligned && x.shape[1] % v == 0 ? v : 1};
}

/// Threads that share the channels of a point: few, since each finds its taps.
inline int shares_of(const Layout& l) {
  constexpr int64_t kEnoughThreads = 1 << 16;
  constexpr int kMostInside = 8;
  constexpr int kMost = 32;
  const auto channels = static_cast<uint64_t>(std::max<int64_t>(l.channels, 1));
  if (l.last)
    return static_cast<int>(
        std::min<uint64_t>(std::bit_ceil(channels), l.vector == 1 ? kMost : kMostInside));
  int shares = 1;
  while (shares < kMost && shares * 2 <= l.channels && l.all_points() * shares < kEnoughThreads)
    shares *= 2;
  return shares;
}
inline unsigned blocks_of(const Layout& l, int shares) {
  return static_cast<unsigned>(ceil_div<int64_t>(l.all_points(), kThreads / shares));
}

/// Which point a thread has, and which share of its channels: neighbours have neighbouring channels
/// where those are innermost, else neighbouring points.
struct Share {
  int64_t point;
  int share;

  __device__ Share(const Layout& l, int shares) {
    const int across = kThreads / shares;
    const int thread = static_cast<int>(threadIdx.x);
    share = l.last ? thread % shares : thread / across;
    point =
        static_cast<int64_t>(blockIdx.x) * across + (l.last ? thread / shares : thread % across);
  }
};

/// The taps of a point along both axes; K of each.
template <int K>
struct PointTaps {
  GridTaps rows, cols;

  template <class T>
  __device__ PointTaps(const T* grid, int64_t point, const Layout& l, GridSampleParams params) {
    params.mode = K == 1 ? GridMode::nearest : K == 2 ? GridMode::bilinear : GridMode::bicubic;
    cols = grid_taps_at(static_cast<double>(to_compute(grid[2 * point])), l.width, params);
    rows = grid_taps_at(static_cast<double>(to_compute(grid[2 * point + 1])), l.height, params);
  }
  /// -1 outside the image.
  __device__ int pixel(int i, int j, const Layout& l) const {
    const int row = rows.index[static_cast<size_t>(i)];
    const int col = cols.index[static_cast<size_t>(j)];
    return row >= 0 && col >= 0 ? row * l.width + col : -1;
  }
  __device__ double weight(int i, int j) const {
    return rows.weight[static_cast<size_t>(i)] * cols.weight[static_cast<size_t>(j)];
  }
  __device__ double along_x(int i, int j) const {
    return rows.weight[static_cast<size_t>(i)] * cols.slope[static_cast<size_t>(j)];
  }
  __device__ double along_y(int i, int j) const {
    return rows.slope[static_cast<size_t>(i)] * cols.weight[static_cast<size_t>(j)];
  }
};

/// Calls f.operator()<K>() for the taps of a mode.
template <class F>
void with_taps(GridMode mode, F&& f) {
  if (mode == GridMode::nearest) return f.template operator()<1>();
  if (mode == GridMode::bilinear) return f.template operator()<2>();
  f.template operator()<4>();
}

}  // namespace mica::cuda::grid_points
