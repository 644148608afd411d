#pragma once

// The matrix product behind every direct convolution kernel. Rows are pixels of the destination,
// the sum runs over the taps (channel, i, j) of a window, and nothing is unfolded in memory: small
// tables in shared memory turn a pixel and a tap into an address.
#include "mica/ops/conv2d/geometry.h"
#include "mica/runtime/cuda/types.cuh"

namespace mica::direct {

constexpr int kDepth = 16;  // summed per step
constexpr int kEach = 4;    // a thread computes 4 × 4 elements

template <int TM, int TN>
inline constexpr int kTileThreads = TM * TN / (kEach * kEach);

/// A convolution as gathering: destination pixel p and tap t read the source at
/// (p · mul + base + t · step) / div, where that is whole and inside. div is 1 for the forward pass
/// and the stride for the input's gradient.
struct Axis {
  int size = 0;  ///< of the source
  int mul = 1;
  int base = 0;
  int step = 1;
  cuda::Divider div;
};

struct GatherPlan {
  int64_t pixels = 0;  ///< of all destination images
  int64_t image_pixels = 1;
  int64_t row_pixels = 1;
  int64_t groups = 1;
  int64_t channels = 0;  ///< of the destination, per group
  int depth = 0;         ///< taps: source channels per group · kh · kw
  Axis h;
  Axis w;
  // Strides in elements: image, channel, row, column.
  int64_t source[4] = {};
  int64_t destination[4] = {};
  int64_t source_group = 0;
  int64_t destination_group = 0;
  // The weight's strides: source channel, i, j, destination channel, group.
  int64_t weight_tap[3] = {};
  int64_t weight_channel = 0;
  int64_t weight_group = 0;
  // The order of taps: channels innermost where the source has them innermost, else outermost.
  bool channels_innermost = false;
  cuda::Divider by_inner;
  cuda::Divider by_middle;
};

struct Pixel {
  int64_t source;
  int64_t destination;  ///< negative for a pixel past the end
  int h;
  int w;
};

struct Tap {
  int64_t source;
  int64_t weight;
  int h;
  int w;
};

// Far enough outside that no valid tap or pixel brings it back.
constexpr int kOutside = -(1 << 30);

__device__ inline Pixel pixel_at(const GatherPlan& p, int64_t index, int64_t group) {
  if (index >= p.pixels) return {0, -1, kOutside, kOutside};
  const int64_t n = index / p.image_pixels;
  const int64_t rest = index - n * p.image_pixels;
  const int64_t h = rest / p.row_pixels;
  const int64_t w = rest - h * p.row_pixels;
  return {n * p.source[0] + group * p.source_group,
          n * p.destination[0] + group * p.destination_group + h * p.destination[2] +
              w * p.destination[3],
          static_cast<int>(h) * p.h.mul + p.h.base, static_cast<int>(w) * p.w.mul + p.w.base};
}

__device__ inline Tap tap_at(const GatherPlan& p, int index, int64_t group) {
  if (index >= p.depth) return {0, 0, kOutside, kOutside};
  const auto k = static_cast<uint32_t>(index);
  const uint32_t q = p.by_inner.quotient(k);
  const uint32_t inner = k - q * p.by_inner.divisor;
  const uint32_t outer = p.by_middle.quotient(q);
  const uint32_t middle = q - outer * p.by_middle.divisor;
  const auto c = static_cast<int>(p.channels_innermost ? inner : outer);
  const auto i = static_cast<int>(p.channels_innermost ? outer : middle);
  const auto j = static_cast<int>(p.channels_innermost ? middle : inner);
  return {c * p.source[1],
          group * p.weight_group + c * p.weight_tap[0] + i * p.weight_tap[1] + j * p.weight_tap[2],
          i * p.h.step, j * p.w.step};
}

template <class T>
__device__ cuda::Compute<T> gather(const GatherPlan& p, const Pixel& pixel, const Tap& tap,
                                   const T* source) {
  using C = cuda::Compute<T>;
  const int h = pixel.h + tap.h;
  const int w = pixel.w + tap.w;
  if (h < 0 || w < 0) return C(0);
  const auto row = static_cast<int>(p.h.div.quotient(static_cast<uint32_t>(h)));
  const auto col = static_cast<int>(p.w.div.quotient(static_cast<uint32_t>(w)));
  if (row >= p.h.size || col >= p.w.size || row * static_cast<int>(p.h.div.divisor) != h ||
      col * static_cast<int>(p.w.div.divisor) != w)
    return C(0);
  return cuda::to_compute(
      source[pixel.source + tap.source + row * p.source[2] + col * p.source[3]]);
}

/// A step's operands; the padding keeps 16-byte rows and spreads the banks.
template <class C, int TM, int TN>
struct alignas(32) Tiles {
  C a[kDepth][TM + kEach];
  C b[kDepth][TN + kEach];
};

/// The part of a block's TM × TN elements that a thread computes: 4 from `row` by 4 from `col`.
template <int TM>
__device__ inline int thread_row() {
  return static_cast<int>(threadIdx.x) % (TM / kEach) * kEach;
}
template <int TM>
__device__ inline int thread_col() {
  return static_cast<int>(threadIdx.x) / (TM / kEach) * kEach;
}

template <class C, int TM, int TN>
__device__ void multiply(const Tiles<C, TM, TN>& tiles, C (&sum)[kEach][kEach]) {
  const int row = thread_row<TM>();
  const int col = thread_col<TM>();
#pragma unroll
  for (int k = 0; k < kDepth; ++k) {
    const cuda::Vec<C, kEach> a = cuda::load_vec<kEach>(&tiles.a[k][row]);
    const cuda::Vec<C, kEach> b = cuda::load_vec<kEach>(&tiles.b[k][col]);
#pragma unroll
    for (int i = 0; i < kEach; ++i)
#pragma unroll
      for (int j = 0; j < kEach; ++j) sum[i][j] += a.v[i] * b.v[j];
  }
}

/// Position `index` of a kDepth × kRows tile, with neighbouring threads along the rows or the
/// depth.
template <int kRows>
__device__ inline int tile_row(int index, bool along_depth) {
  return along_depth ? index / kDepth : index % kRows;
}
template <int kRows>
__device__ inline int tile_depth(int index, bool along_depth) {
  return along_depth ? index % kDepth : index / kRows;
}

/// y from x.
GatherPlan plan_forward(const Conv2dGeometry& g, const Strides& x, const Strides& weight,
                        const Strides& y);
/// dx from dy.
GatherPlan plan_dgrad(const Conv2dGeometry& g, const Strides& dy, const Strides& weight,
                      const Strides& dx);

/// A reason when the sizes are beyond the tables' 32-bit coordinates; empty otherwise.
std::string too_large(const Conv2dGeometry& g);

/// Calls f.operator()<TM, TN>() with tiles that fit a product of `rows` by `cols`, `blocks` of them
/// side by side, and small ones where large tiles would leave multiprocessors idle.
template <class F>
void switch_tiles(int64_t rows, int64_t cols, int64_t blocks, int multiprocessors, F&& f) {
  const int64_t large =
      blocks * cuda::ceil_div<int64_t>(rows, 64) * cuda::ceil_div<int64_t>(cols, 64);
  if (rows <= 32 || large < multiprocessors)
    f.template operator()<32, 32>();
  else if (cols <= 32)
    f.template operator()<64, 32>();
  else
    f.template operator()<64, 64>();
}

}  // namespace mica::direct
