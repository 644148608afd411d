#pragma once

// How the weight gradient's operands come to shared memory: x as it is, dy that was pooled spread
// out, both rounded to TF32.
#include "mica/runtime/cuda/async_copy.cuh"
#include "mica/runtime/cuda/tf32.cuh"
#include "mica/runtime/cuda/types.cuh"

namespace mica::implicit_wgrad {

/// How the work is cut. A unit is a band of rows of y of one image; a block takes a tile of taps
/// and channels and a slice of the units, a chunk of some units at a time.
struct Plan {
  int channels, h, w;  // of x
  int out, ow;         // of y
  int taps;            // channels · kh · kw
  int stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w;
  int pool_h, pool_w;          ///< the pooling's window and step
  int dy_plane, dy_w;          ///< of dy as it is given: pooled or not
  int dy_each;                 ///< elements of dy in a band of a channel
  int bands;                   ///< of an image, all of one size
  int rows;                    ///< rows of y in a band
  int units_each, units_more;  ///< of a slice; the first `units_more` slices have one more
  int per_chunk;
  int unit_pixels, chunk_pixels;  ///< the latter a multiple of 8
  int tap_warps, pixel_warps, tap_tiles;
  bool x_whole;  ///< a channel of a unit of x is copied as one piece, without padding
  int x_left;    ///< floats before a row of x: at least the padding
  int x_rows, x_pitch, x_plane, x_unit;
  int dy_pitch;  ///< floats of a channel of a chunk
  int clear;     ///< from here to `raw` shared memory has places that are never written
  bool bias;
  bool dw_vectors;  ///< four floats of the result are written as one
  // places in shared memory, in floats
  int dy_size, x_size, xs, raw, raw_unit, raw_size, pixels, windows, taps_at, bias_parts;
  int part_size;  ///< floats of one part of the results, a multiple of 4
  cuda::Divider by_bands, by_x_line, by_x_rows, by_dy_copy, by_dy_spread, by_dy_w;
  cuda::Divider by_window, by_kw, by_unit, by_ow;
};

/// What dy is: pooled by 2 by 2 in rows of even length, not pooled, or pooled in another way. Of
/// the first two, and of x with them, four floats are copied as one, unless it says `scalar`.
enum class Kind { pairs, plain, scalar_pooled, scalar_plain };
__host__ __device__ constexpr bool is_pooled(Kind k) {
  return k == Kind::pairs || k == Kind::scalar_pooled;
}
__host__ __device__ constexpr int vector_of(Kind k) {
  return k == Kind::pairs || k == Kind::plain ? 4 : 1;
}

extern __shared__ __align__(16) float wgrad_shared[];

/// What a block has of the problem.
struct Share {
  int first_tap, first_channel, channels;  // of y
  int x_first, x_channels;                 // of x, those of the taps
  int unit, end;
};

__device__ inline int divided(const cuda::Divider& by, int n) {
  return static_cast<int>(by.quotient(static_cast<uint32_t>(n)));
}

struct Unit {
  int image, band;
};
__device__ inline Unit unit_at(const Plan& p, int unit) {
  if (p.bands == 1) return {unit, 0};
  const int image = divided(p.by_bands, unit);
  return {image, unit - image * p.bands};
}

/// Rows of x with the padding around them.
template <int N>
__device__ inline void copy_x_rows(const Plan& p, const Share& s, const Unit& at, const float* from,
                                   float* to) {
  const int line_length = p.w / N;
  const int total = s.x_channels * p.x_rows * line_length;
  const int first = at.band * p.rows * p.stride_h - p.pad_h;
#pragma unroll 1
  for (int j = threadIdx.x; j < total; j += blockDim.x) {
    const int line = divided(p.by_x_line, j);
    const int c = divided(p.by_x_rows, line);
    const int row = line - c * p.x_rows;
    const int col = (j - line * line_length) * N;
    const bool inside = first + row >= 0 && first + row < p.h;
    cuda::copy_async<4 * N>(to + c * p.x_plane + row * p.x_pitch + p.x_left + col,
                            from + (inside ? (c * p.h + first + row) * p.w + col : 0),
                            inside ? 4 * N : 0);
  }
}

template <int N>
__device__ inline void copy_x(const Plan& p, const Share& s, const Unit& at, int count,
                              const float* x, float* to) {
  const int image = p.channels * p.h * p.w;
  const float* from = x + int64_t{at.image} * image + s.x_first * p.h * p.w;
  if (!p.x_whole) {
#pragma unroll 1
    for (int u = 0; u < count; ++u, from += image, to += p.x_unit)
      copy_x_rows<N>(p, s, at, from, to);
    return;
  }
  from += at.band * p.rows * p.stride_h * p.w;
  const int total = s.x_channels * p.x_plane / 4;
  const int skipped = p.bands == 1 ? 0 : p.h * p.w - p.x_plane;  // between channels
#pragma unroll 1
  for (int u = 0; u < count; ++u, from += image, to += p.x_unit)
#pragma unroll 1
    for (int j = threadIdx.x; j < total; j += blockDim.x)
      cuda::copy_async<16>(to + j * 4,
                           from + (skipped == 0 ? 0 : divided(p.by_x_line, j) * skipped) + j * 4);
}

/// dy, or pooled dy and half a unit further its positions, which wait in `raw` to be spread.
template <Kind K>
__device__ inline void copy_dy(const Plan& p, const Share& s, const Unit& at, int count,
                               const float* dy, const int* positions, float* ds, float* raw) {
  constexpr int N = vector_of(K);
  const int total = s.channels * p.dy_each / N;
  const int image = p.out * p.dy_plane;
  int64_t first = int64_t{at.image} * image + s.first_channel * p.dy_plane + at.band * p.dy_each;
  const int skipped = p.bands == 1 ? 0 : p.dy_plane - p.dy_each;  // between channels
  if constexpr (is_pooled(K)) {
#pragma unroll 1
    for (int u = 0; u < count; ++u, first += image, raw += p.raw_unit)
#pragma unroll 1
      for (int j = threadIdx.x; j < total; j += blockDim.x) {
        const int64_t from =
            first + (skipped == 0 ? 0 : divided(p.by_dy_copy, j) * skipped) + j * N;
        cuda::copy_async<4 * N>(raw + j * N, dy + from);
        cuda::copy_async<4 * N>(raw + p.raw_unit / 2 + j * N, positions + from);
      }
  } else {
#pragma unroll 1
    for (int u = 0; u < count; ++u, first += image, ds += p.unit_pixels)
#pragma unroll 1
      for (int j = threadIdx.x; j < total; j += blockDim.x) {
        const int o = divided(p.by_dy_copy, j);
        cuda::copy_async<4 * N>(ds + o * (p.dy_pitch - p.dy_each) + j * N,
                                dy + first + o * skipped + j * N);
      }
  }
}

__device__ inline float rounded(float x) { return __uint_as_float(tf32::round(x)); }

/// Rounds `fours` · 4 floats.
__device__ inline void round_all(float* at, int fours) {
  constexpr int kTogether = 2;
  auto* v = reinterpret_cast<float4*>(at);
  const auto step = static_cast<int>(blockDim.x);
#pragma unroll 1
  for (int i = threadIdx.x; i < fours; i += kTogether * step) {
    float4 here[kTogether];
#pragma unroll
    for (int k = 0; k < kTogether; ++k)
      if (i + k * step < fours) here[k] = v[i + k * step];
#pragma unroll
    for (int k = 0; k < kTogether; ++k)
      if (i + k * step < fours)
        v[i + k * step] = {rounded(here[k].x), rounded(here[k].y), rounded(here[k].z),
                           rounded(here[k].w)};
  }
}

/// Rounds dy of a chunk that was not pooled; `sums` (channels, 32) adds up what its pixels were.
__device__ inline void round_dy(const Plan& p, int channels, int pixels, float* ds, float* sums,
                                bool first) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto warps = static_cast<int>(blockDim.x) / 32;
#pragma unroll 1
  for (int o = static_cast<int>(threadIdx.x) / 32; o < channels; o += warps) {
    auto* row = reinterpret_cast<float4*>(ds + o * p.dy_pitch);
    float sum = first ? 0.0F : sums[o * 32 + lane];
#pragma unroll 2
    for (int i = lane; i < p.dy_pitch / 4; i += 32) {
      const float4 v = row[i];
      const int left = pixels - i * 4;  // what lies after them is of no chunk
      sum += (left > 0 ? v.x : 0.0F) + (left > 1 ? v.y : 0.0F);
      sum += (left > 2 ? v.z : 0.0F) + (left > 3 ? v.w : 0.0F);
      row[i] = {rounded(v.x), rounded(v.y), rounded(v.z), rounded(v.w)};
    }
    sums[o * 32 + lane] = sum;
  }
}

/// Pooled dy to where it came from, zeros around it; `sums` adds up what each thread has. With
/// `Pairs` two windows of 2 by 2, side by side, are one.
template <bool Pairs>
__device__ inline void spread(const Plan& p, const Share& s, int band, int count,
                              const float* waiting, float* ds, const int* windows, float* sums,
                              bool first) {
  constexpr int N = Pairs ? 2 : 1;
  constexpr int kTogether = 2;
  const int total = s.channels * p.dy_each / N;
  const auto step = static_cast<int>(blockDim.x);
  const int positions = p.raw_unit / 2;
#pragma unroll 1
  for (int j = threadIdx.x; j < total; j += kTogether * step) {
    float* row[kTogether];  // the channel's
    int start[kTogether];   // of the window in the band
    float sum[kTogether] = {};
    bool inside[kTogether];
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      inside[k] = j + k * step < total;
      const int packed = inside[k] ? windows[j + k * step] : 0;
      start[k] = packed & 0xffff;
      row[k] = ds + (packed >> 16) * 4;
    }
    const float* raw = waiting;
#pragma unroll 1
    for (int u = 0; u < count; ++u, raw += p.raw_unit) {
      float v[kTogether][N];
      int place[kTogether][N];
#pragma unroll
      for (int k = 0; k < kTogether; ++k) {
        if (!inside[k]) continue;
        const float* from = raw + (j + k * step) * N;
        if constexpr (Pairs) {
          const float2 two = *reinterpret_cast<const float2*>(from);
          const int2 at = *reinterpret_cast<const int2*>(from + positions);
          v[k][0] = two.x, v[k][1] = two.y;
          place[k][0] = at.x, place[k][1] = at.y;
        } else {
          v[k][0] = from[0];
          place[k][0] = __float_as_int(from[positions]);
        }
      }
#pragma unroll
      for (int k = 0; k < kTogether; ++k) {
        if (!inside[k]) continue;
        float* to = row[k] + u * p.unit_pixels;
        if constexpr (Pairs) {
          *reinterpret_cast<float4*>(to + start[k]) = {0, 0, 0, 0};
          *reinterpret_cast<float4*>(to + start[k] + p.ow) = {0, 0, 0, 0};
        } else {
#pragma unroll 1
          for (int r = 0; r < p.pool_h; ++r)
#pragma unroll 1
            for (int c = 0; c < p.pool_w; ++c) to[start[k] + r * p.ow + c] = 0;
        }
#pragma unroll
        for (int e = 0; e < N; ++e) {
          const int at = place[k][e] - band * p.unit_pixels;
          if (static_cast<unsigned>(at) < static_cast<unsigned>(p.unit_pixels))
            to[at] = rounded(v[k][e]);
          sum[k] += v[k][e];
        }
      }
    }
    if (sums)
#pragma unroll
      for (int k = 0; k < kTogether; ++k)
        if (inside[k]) sums[j + k * step] = first ? sum[k] : sums[j + k * step] + sum[k];
  }
}

/// Makes of what was copied what is multiplied.
template <Kind K>
__device__ inline void finish(const Plan& p, const Share& s, int band, int count, const float* raw,
                              float* ds, float* xs, const int* windows, float* sums, bool first) {
  if constexpr (is_pooled(K))
    spread<K == Kind::pairs>(p, s, band, count, raw, ds, windows, sums, first);
  else if (sums)
    round_dy(p, s.channels, count * p.unit_pixels, ds, sums, first);
  else
    round_all(ds, s.channels * p.dy_pitch / 4);
  round_all(xs, count * p.x_unit / 4);
}

/// Where the pixels of a chunk and the taps have their windows in x, and where the windows of dy
/// lie in a band.
template <Kind K>
__device__ inline void make_tables(const Plan& p, const Share& s, int tile_taps, int* pixels,
                                   int* windows, int* taps) {
#pragma unroll 1
  for (int i = threadIdx.x; i < tile_taps; i += blockDim.x) {
    const int tap = s.first_tap + i;
    const int c = divided(p.by_window, tap);
    const int in_window = tap - c * static_cast<int>(p.by_window.divisor);
    const int u = divided(p.by_kw, in_window);
    const int v = in_window - u * static_cast<int>(p.by_kw.divisor);
    taps[i] = tap < p.taps ? (c - s.x_first) * p.x_plane + u * p.dilation_h * p.x_pitch +
                                 v * p.dilation_w + p.x_left - p.pad_w
                           : 0;
  }
#pragma unroll 1
  for (int i = threadIdx.x; i < p.chunk_pixels; i += blockDim.x) {
    const int u = divided(p.by_unit, i);
    const int pixel = i - u * p.unit_pixels;
    const int row = divided(p.by_ow, pixel);
    pixels[i] = u < p.per_chunk ? u * p.x_unit + row * p.stride_h * p.x_pitch +
                                      (pixel - row * p.ow) * p.stride_w
                                : 0;
  }
  if constexpr (!is_pooled(K)) return;
  constexpr int n = K == Kind::pairs ? 2 : 1;
  const int each = p.dy_each / n;
#pragma unroll 1
  for (int j = threadIdx.x; j < s.channels * each; j += blockDim.x) {
    const int o = divided(p.by_dy_spread, j);
    const int e = (j - o * each) * n;
    const int row = divided(p.by_dy_w, e);
    windows[j] =
        (o * p.dy_pitch / 4) << 16 | (row * p.pool_h * p.ow + (e - row * p.dy_w) * p.pool_w);
  }
}

}  // namespace mica::implicit_wgrad
