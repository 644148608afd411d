#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "mica/ops/conv2d/cuda_implicit_wgrad.cuh"
#include "mica/ops/device_table.h"

namespace mica::implicit_wgrad {

/// What is chosen, by the sizes alone.
struct Choice {
  int tap_tiles = 1;      ///< of 16, of a warp
  int channel_tiles = 2;  ///< of 8, of a warp
  int tap_warps = 1;
  int pixel_warps = 8;
  int parts = 1;
  int pixels = 256;  ///< of a chunk, at most where an image has rows enough
};

struct Problem {
  int n, channels, h, w, out, oh, ow, kh, kw;
  int stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  bool pooled;
  int pool_h, pool_w, dy_h, dy_w;
  bool bias;
  bool aligned;  ///< the tensors start at multiples of 16 bytes
};

struct Launch {
  Plan plan;
  Kind kind = Kind::plain;
  int tap_tiles = 0, channel_tiles = 0;  ///< of a warp, as in Choice
  int slices = 0;
  int grid_channels = 0;  ///< tiles of channels
  int threads = 0;
  size_t shared = 0;
  double cost = 0;

  size_t workspace_bytes() const {
    return slices > 1
               ? sizeof(float) * static_cast<size_t>(slices) * static_cast<size_t>(plan.part_size)
               : 0;
  }
};

/// Of a chunk: places in it are kept in 16 bits.
constexpr int kMostPixels = 1 << 15;

inline int ceil_to(int n, int step) { return (n + step - 1) / step * step; }

inline Launch make_launch(const Problem& q, const Choice& c) {
  Launch l;
  Plan& p = l.plan;
  p = {};
  p.channels = q.channels, p.h = q.h, p.w = q.w;
  p.out = q.out, p.ow = q.ow;
  p.taps = q.channels * q.kh * q.kw;
  p.stride_h = q.stride_h, p.stride_w = q.stride_w, p.pad_h = q.pad_h, p.pad_w = q.pad_w;
  p.dilation_h = q.dilation_h, p.dilation_w = q.dilation_w;
  p.pool_h = q.pooled ? q.pool_h : 1, p.pool_w = q.pooled ? q.pool_w : 1;
  p.dy_plane = q.dy_h * q.dy_w, p.dy_w = q.dy_w;
  p.bias = q.bias;

  int dy_rows = std::clamp(c.pixels / (p.pool_h * p.ow), 1, q.dy_h);
  while (q.dy_h % dy_rows != 0) --dy_rows;
  p.bands = q.dy_h / dy_rows;
  p.dy_each = dy_rows * q.dy_w;
  p.rows = dy_rows * p.pool_h;
  const int units = q.n * p.bands;
  l.slices = std::min(c.parts, units);
  p.units_each = units / l.slices;
  p.units_more = units % l.slices;
  const int most_units = cuda::ceil_div(units, l.slices);
  p.unit_pixels = p.rows * p.ow;
  p.per_chunk = p.bands > 1 || p.unit_pixels % 8 != 0
                    ? 1
                    : std::clamp(c.pixels / p.unit_pixels, 1, most_units);
  p.chunk_pixels = ceil_to(p.per_chunk * p.unit_pixels, 8);
  p.tap_warps = c.tap_warps, p.pixel_warps = c.pixel_warps;
  const int tile_taps = 16 * c.tap_tiles * c.tap_warps;
  const int tile_channels = 8 * c.channel_tiles;
  p.tap_tiles = cuda::ceil_div(p.taps, tile_taps);
  l.grid_channels = cuda::ceil_div(p.out, tile_channels);
  l.tap_tiles = c.tap_tiles, l.channel_tiles = c.channel_tiles;
  l.threads = 32 * c.tap_warps * c.pixel_warps;

  p.x_rows = (p.rows - 1) * p.stride_h + (q.kh - 1) * p.dilation_h + 1;
  const bool x_whole =
      q.pad_h == 0 && q.pad_w == 0 && p.h * p.w % 4 == 0 &&
      (p.bands == 1 || (p.x_rows * p.w % 4 == 0 && p.rows * p.stride_h * p.w % 4 == 0));
  const bool fours =
      q.aligned && p.dy_each % 4 == 0 && p.dy_plane % 4 == 0 && (x_whole || p.w % 4 == 0);
  const bool pairs = p.pool_h == 2 && p.pool_w == 2 && p.dy_w % 2 == 0 && p.ow % 4 == 0;
  l.kind = q.pooled ? (fours && pairs ? Kind::pairs : Kind::scalar_pooled)
                    : (fours ? Kind::plain : Kind::scalar_plain);
  const int vector = vector_of(l.kind);
  const int spread = l.kind == Kind::pairs ? 2 : 1;
  p.x_whole = vector == 4 && x_whole;
  if (p.x_whole && p.bands == 1) p.x_rows = p.h;
  p.x_left = ceil_to(q.pad_w, vector);
  p.x_pitch = p.x_whole ? p.w : ceil_to(p.x_left + p.w + q.pad_w, vector);
  p.x_plane = p.x_rows * p.x_pitch;
  const int window = q.kh * q.kw;
  const int x_channels = std::min(p.channels, (tile_taps - 2) / window + 2);
  p.x_unit = ceil_to(x_channels * p.x_plane, 4);
  p.dy_pitch = ceil_to(p.chunk_pixels - 8, 32) + 8;
  const bool covered = p.pool_w * p.dy_w == p.ow;

  p.dy_size = tile_channels * p.dy_pitch;
  p.x_size = p.per_chunk * p.x_unit;
  const int chunks = cuda::ceil_div(most_units, p.per_chunk);
  p.xs = std::min(chunks, q.pooled ? 2 : 3) * p.dy_size;
  p.raw = p.xs + std::min(chunks, 3) * p.x_size;
  const bool gaps = p.chunk_pixels != p.per_chunk * p.unit_pixels || !covered;
  p.clear = gaps ? 0 : q.pad_w > 0 ? p.xs : p.raw;
  const int channels = std::min(tile_channels, p.out);
  const int raw = q.pooled ? ceil_to(channels * p.dy_each, 4) : 0;
  p.raw_unit = 2 * raw;
  p.raw_size = p.per_chunk * p.raw_unit;
  p.pixels = p.raw + std::min(chunks, 2) * p.raw_size;
  p.windows = p.pixels + p.chunk_pixels;
  p.taps_at = p.windows + raw / spread;
  const int staged = p.taps_at + tile_taps;
  const int sums = c.tap_warps * c.pixel_warps * tile_channels * (16 * c.tap_tiles + 4);
  p.bias_parts = std::max(staged, sums);
  const int bias_sums = q.pooled ? raw / spread : channels * 32;
  l.shared = sizeof(float) * static_cast<size_t>(p.bias_parts + (p.bias ? bias_sums : 0));

  p.part_size = ceil_to(p.out * p.taps + (p.bias ? p.out : 0), 4);
  p.dw_vectors = p.taps % 4 == 0 && (q.aligned || l.slices > 1);
  const auto divider = [](int d) { return cuda::Divider(static_cast<uint32_t>(d)); };
  p.by_bands = divider(p.bands);
  p.by_x_line = divider(p.x_whole ? p.x_plane / 4 : p.w / vector);
  p.by_x_rows = divider(p.x_rows);
  p.by_dy_copy = divider(p.dy_each / vector);
  p.by_dy_spread = divider(p.dy_each / spread);
  p.by_dy_w = divider(p.dy_w);
  p.by_window = divider(window);
  p.by_kw = divider(q.kw);
  p.by_unit = divider(p.unit_pixels);
  p.by_ow = divider(p.ow);
  return l;
}

/// The tile of a warp, and warps for as many taps as there are.
inline Choice choose_tile(const Problem& q, bool scalar) {
  const int taps = q.channels * q.kh * q.kw;
  const auto choice = [&](int tap_tiles, int channel_tiles, int warps) {
    Choice c;
    c.tap_tiles = tap_tiles, c.channel_tiles = channel_tiles;
    c.tap_warps = std::min(std::max(1, warps / 4), cuda::ceil_div(taps, 16 * tap_tiles));
    c.pixel_warps = warps / c.tap_warps;
    return c;
  };
  if (taps <= 16) return choice(1, q.out <= 16 ? 2 : 4, 16);
  if (scalar) return choice(3, 4, 15);
  if (taps <= 32 && q.out <= 24) return choice(2, 3, 16);
  if (q.out <= 32) return choice(3, 4, 15);
  const bool eights = ceil_to(q.out, 64) <= ceil_to(q.out, 56);
  return eights ? choice(3, 8, 12) : choice(2, 7, 16);
}

/// The cuts that seem fastest, the best first: few chunks, few pixels for the block that has most;
/// none where shared memory is too small for any.
inline std::vector<Launch> launches(const Problem& q, const DeviceTable::WgradModel& model,
                                    int multiprocessors, size_t most_shared, size_t most) {
  std::vector<Launch> all;
  for (const bool scalar : {false, true}) {
    Choice c = choose_tile(q, scalar);
    const int tiles = cuda::ceil_div(q.channels * q.kh * q.kw, 16 * c.tap_tiles * c.tap_warps) *
                      cuda::ceil_div(q.out, 8 * c.channel_tiles);
    c.parts = std::max(1, multiprocessors / tiles);
    const auto consider = [&](int64_t pixels) {
      if (pixels > kMostPixels) return;
      c.pixels = static_cast<int>(pixels);
      Launch l = make_launch(q, c);
      const Plan& p = l.plan;
      if (l.shared > most_shared || (vector_of(l.kind) == 1) != scalar) return;
      const int units = p.units_each + (p.units_more > 0 ? 1 : 0);
      l.cost = (units * p.unit_pixels + cuda::ceil_div(units, p.per_chunk) * model.chunk) *
               (scalar ? model.scalar : 1.0);
      all.push_back(l);
    };
    const int64_t row = int64_t{q.pooled ? q.pool_h : 1} * q.ow;
    for (int rows = 1; rows < q.dy_h; ++rows)
      if (q.dy_h % rows == 0) consider(rows * row);
    for (int images = 1; images <= 8; ++images) consider(images * q.dy_h * row);
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Launch& a, const Launch& b) { return a.cost < b.cost; });
  if (all.size() > most) all.resize(most);
  return all;
}

}  // namespace mica::implicit_wgrad
