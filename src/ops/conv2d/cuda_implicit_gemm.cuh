#pragma once

#include "mica/ops/conv2d/cuda_forward_plan.h"
#include "mica/runtime/cuda/async_copy.cuh"
#include "mica/runtime/cuda/programmatic_launch.cuh"
#include "mica/runtime/cuda/tf32.cuh"

// Loops that run a few times are kept rolled: code that runs once is fetched from L2, which takes
// longer than running it. Run-time compilation takes this file as it is.
namespace mica::implicit_gemm {

extern __shared__ __align__(16) char forward_shared[];

__device__ inline int thread_index() { return static_cast<int>(threadIdx.x); }
__device__ inline int block_threads() { return static_cast<int>(blockDim.x); }
__device__ inline int divide(int n, const cuda::Divider& d) {
  return static_cast<int>(d.quotient(static_cast<uint32_t>(n)));
}

/// Loads the weight of a block's channels without waiting for it, in the order in which lanes read
/// it: for each step of 8 taps, channel after channel, t after t, both taps of a lane. Zeros past
/// the last channel and tap.
__device__ inline void load_weight(const ForwardPlan& p, const float* __restrict__ weight,
                                   int channel0, float* ws) {
  const int lanes = p.weight_lanes;
  const int first = divide(thread_index(), p.by_weight_lanes);
  const int stride = p.weight_rows;
  const int channels = p.block_tiles * 8;
  const int existing = min(channels, p.o - channel0);
  if (first >= stride) return;
#pragma unroll 1
  for (int slot = thread_index() - first * lanes; slot < 8 * p.steps; slot += lanes) {
    const int t = divide(slot, p.by_slots);
    const int s = slot - t * 2 * p.steps;
    const int tap = t * p.section + s;
    const int end = s < p.section && tap < p.taps ? existing : 0;
    const float* from = weight + static_cast<int64_t>(channel0 + first) * p.taps + tap;
    float* to = ws + s / 2 * (p.step_bytes / 4) + first * 8 + t * 2 + s % 2;
    int o = first;
    const auto load = [&] {
      cuda::copy_async<4>(to, from);
      from += stride * p.taps;
      to += stride * 8;
      o += stride;
    };
#pragma unroll 1
    while (o + 3 * stride < end) {
      load();
      load();
      load();
      load();
    }
#pragma unroll 1
    while (o < end) load();
#pragma unroll 1
    for (; o < channels; o += stride) {
      *to = 0.0F;
      to += stride * 8;
    }
  }
}

/// Where the taps of a lane lie relative to a pixel, in bytes; negative past the last.
__device__ inline void stage_taps(const ForwardPlan& p, int* taps) {
#pragma unroll 1
  for (int i = thread_index(); i < 8 * p.steps; i += block_threads()) {
    const int t = i / 2 % 4;
    const int s = i / 8 * 2 + i % 2;
    const int tap = t * p.section + s;
    const int c = divide(tap, p.by_window_taps);
    const int rest = tap - c * p.kh * p.kw;
    const int row = divide(rest, p.by_kw);
    const int place = c * p.x_plane + p.skew[divide(c, p.by_quarter)] +
                      row * p.dilation_h * p.x_pitch + (rest - row * p.kw) * p.dilation_w;
    taps[i] = s < p.section && tap < p.taps ? 4 * place : -1;
  }
}

/// A window of a chunk. In elements but for `x`.
struct Window {
  int x;         ///< its first pixel in shared memory, in bytes
  int y;         ///< its place from the chunk's first image on; negative for none
  int position;  ///< of its first pixel in a plane of the convolution
  int inside;    ///< bit q: its pixel q is in the image
};

__device__ inline void stage_windows(const ForwardPlan& p, int image0, int band_row,
                                     Window* windows) {
  const int count = min(p.images, p.n - image0) * p.rows * p.window_cols;
#pragma unroll 1
  for (int i = thread_index(); i < p.windows; i += block_threads()) {
    const int image = divide(i, p.by_chunk_windows);
    const int rest = i - image * p.rows * p.window_cols;
    const int chunk_row = divide(rest, p.by_window_cols);
    const int col = rest - chunk_row * p.window_cols;
    const int row = band_row + chunk_row;
    const bool exists = i < count && row < p.window_rows;
    const int at = image * p.x_image + chunk_row * p.window_stride_h * p.stride_h * p.x_pitch +
                   col * p.window_stride_w * p.stride_w;
    int inside = 0;
#pragma unroll
    for (int q = 0; q < kSlots; ++q)
      inside |= (row * p.window_stride_h + p.slot_row[q] < p.oh &&
                 col * p.window_stride_w + p.slot_col[q] < p.ow)
                << q;
    windows[i] = {exists ? 4 * at : 0,
                  exists ? image * p.y_image + row * p.y_row + col * p.y_col : -1,
                  row * p.window_stride_h * p.ow + col * p.window_stride_w, inside};
  }
}

/// Loads a chunk of x without waiting for it; zeros outside the image.
__device__ inline void load_x(const ForwardPlan& p, const float* __restrict__ x, int image0,
                              int row0, float* xs) {
  constexpr int kEach = 4;  // places of a plane, for which it is found once
  const int lanes = p.x_lanes;
  const int first = divide(thread_index(), p.by_x_lanes);
  const int stride = p.x_stride;
  if (first >= stride) return;
  const int planes = min(p.images, p.n - image0) * p.c;
  const float* images = x + static_cast<int64_t>(image0) * p.c * p.h * p.w;
  const int places = p.x_rows * p.x_cols;
#pragma unroll 1
  for (int place = thread_index() - first * lanes; place < places; place += lanes * kEach) {
    int from[kEach];
    int to[kEach];
    bool inside[kEach];
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = place + i * lanes;
      const int row = divide(at, p.by_x_cols);
      const int col = at - row * p.x_cols;
      const int h = row0 + row;
      const int w = col - p.pad_w;
      inside[i] = h >= 0 && h < p.h && w >= 0 && w < p.w;
      from[i] = inside[i] ? h * p.w + w : 0;
      to[i] = row * p.x_pitch + col;
    }
#pragma unroll 1
    for (int plane = first; plane < planes; plane += stride) {
      const int image = divide(plane, p.by_channels);
      const int c = plane - image * p.c;
      float* to_plane = xs + image * p.x_image + c * p.x_plane + p.skew[divide(c, p.by_quarter)];
      const float* from_plane = images + plane * p.h * p.w;
#pragma unroll
      for (int i = 0; i < kEach; ++i)
        if (place + i * lanes < places)
          cuda::copy_async<4>(to_plane + to[i], from_plane + from[i], inside[i] ? 4 : 0);
    }
  }
}

/// Rounds `fours` times four floats.
__device__ inline void round_all(float* from, int fours) {
  auto* v = reinterpret_cast<float4*>(from);
#pragma unroll 2
  for (int i = thread_index(); i < fours; i += block_threads()) {
    const float4 x = v[i];
    v[i] = {__uint_as_float(tf32::round(x.x)), __uint_as_float(tf32::round(x.y)),
            __uint_as_float(tf32::round(x.z)), __uint_as_float(tf32::round(x.w))};
  }
}

/// The larger one; NaN wins.
__device__ inline float larger(float a, float b) {
  float c;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(c) : "f"(a), "f"(b));
  return c;
}

/// Where results go, after ReLU where the plan says so, and, with pooling, their positions.
struct ForwardEnd {
  float* y;
  int* positions;
};
template <class End>
inline constexpr bool kIsProgram = true;
template <>
inline constexpr bool kIsProgram<ForwardEnd> = false;

/// A tile of a warp: 32 pixels by 8 · NT channels. With pooling, a lane has the
/// 4 pixels of a window: they are rows g and g + 8 of two products.
template <int NT, bool kPool>
struct Tile {
  static constexpr int kWindows = kPool ? 1 : kSlots;  // of a lane
  static constexpr int kPixels = kPool ? kSlots : 1;   // of a window
  float sum[kM][NT][4];

  /// The sums over steps [begin, end), from the bias on.
  __device__ void multiply(const ForwardPlan& p, const Window* windows, const char* xs,
                           const int2* taps, const float* ws, const float* biases, int begin,
                           int end) {
    const int lane = thread_index() % 32;
    const int t = lane % 4;
    int from[kSlots];
#pragma unroll
    for (int i = 0; i < kWindows; ++i) {
      const Window v = windows[i * 8 + lane / 4];
#pragma unroll
      for (int q = 0; q < kPixels; ++q)
        from[i * kPixels + q] = v.x + (!kPool || v.inside >> q & 1 ? p.slot_x[q] : 0);
    }
#pragma unroll
    for (int n = 0; n < NT; ++n) {
      float2 bias = *reinterpret_cast<const float2*>(biases + n * 8 + 2 * t);
      if (begin > 0) bias = {0.0F, 0.0F};
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        sum[m][n][0] = sum[m][n][2] = bias.x;
        sum[m][n][1] = sum[m][n][3] = bias.y;
      }
    }
    const int2* at = taps + begin * 4 + t;
    const char* b = reinterpret_cast<const char*>(ws + lane * 2) + begin * p.step_bytes;
    const int step_bytes = p.step_bytes;
    int2 next = *at;  // the loads of a step wait for its places
    const auto step = [&](auto get) {
      const int2 place = next;
      at += 4;
      next = *at;
      uint32_t a[kM][4];
#pragma unroll
      for (int m = 0; m < kM; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          a[m][half] = get(from[2 * m + half], place.x);
          a[m][2 + half] = get(from[2 * m + half], place.y);
        }
#pragma unroll
      for (int n = 0; n < NT; ++n) {
        const uint2 two = *reinterpret_cast<const uint2*>(b + n * 256);
#pragma unroll
        for (int m = 0; m < kM; ++m) tf32::mma(sum[m][n], a[m], two.x, two.y);
      }
      b += step_bytes;
    };
    const auto pixel_at = [&](int pixel, int place) {
      return *reinterpret_cast<const uint32_t*>(xs + (pixel + place));
    };
    const int full = min(end, p.full_steps);
    int k = begin;
#pragma unroll 2
    for (; k < full; ++k) step(pixel_at);
    // Past the last tap a zero, for what lies there may be infinite.
#pragma unroll 1
    for (; k < end; ++k)
      step([&](int pixel, int place) {
        return pixel_at(pixel, max(place, 0)) & ~static_cast<uint32_t>(place >> 31);
      });
  }

  /// Adds up what `split` warps, a power of two, have of this tile: warp `part` gets columns n with
  /// n % split = part. Synchronises the block; shared memory up to the windows is lost.
  __device__ void reduce(int split, int part) {
    float4* all = reinterpret_cast<float4*>(forward_shared) + thread_index() % 32;
    const auto place = [&](int warp, int m, int n) { return ((warp * NT + n) * kM + m) * 32; };
    const int warp = thread_index() / 32;
    __syncthreads();
#pragma unroll
    for (int n = 0; n < NT; ++n)
      if ((n & (split - 1)) != part) {
#pragma unroll
        for (int m = 0; m < kM; ++m)
          all[place(warp, m, n)] = {sum[m][n][0], sum[m][n][1], sum[m][n][2], sum[m][n][3]};
      }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < NT; ++n)
      if ((n & (split - 1)) == part) {
#pragma unroll 1
        for (int other = 1; other < split; ++other) {
          const int from = warp - part + ((part + other) & (split - 1));
#pragma unroll
          for (int m = 0; m < kM; ++m) {
            const float4 v = all[place(from, m, n)];
            sum[m][n][0] += v.x;
            sum[m][n][1] += v.y;
            sum[m][n][2] += v.z;
            sum[m][n][3] += v.w;
          }
        }
      }
  }

  /// Ends columns n with n % split = part: channels from `channel` on. The chunk's first image is
  /// at `image` in y.
  template <class End>
  __device__ void store(const ForwardPlan& p, const Window* windows, int channel, int split,
                        int part, int64_t image, const End& end) const {
    const int lane = thread_index() % 32;
    const int first = channel + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < kWindows; ++i) {
      const Window v = windows[i * 8 + lane / 4];
      if (v.y < 0) continue;
#pragma unroll
      for (int n = 0; n < NT; ++n) {
        if ((n & (split - 1)) != part) continue;
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const int o = first + n * 8 + j;
          const int64_t at = v.y + o * p.y_channel;
          if constexpr (kIsProgram<End>) {
            float one[1] = {sum[i / 2][n][i % 2 * 2 + j]};
            if (o < p.o) end(image + at, one);
          } else {
            store_one(p, end, i, n, j, image + at, v.position, o < p.o);
          }
        }
      }
    }
  }

 private:
  __device__ void store_one(const ForwardPlan& p, const ForwardEnd& end, int i, int n, int j,
                            int64_t at, int position, bool inside) const {
    const float least = p.relu ? 0.0F : -INFINITY;
    const auto value = [&](int q) {
      const int row = i * kPixels + q;
      return larger(sum[row / 2][n][row % 2 * 2 + j], least);
    };
    float largest = value(0);
    int best = p.slot_position[0];
    // NaN is the largest, the first of equals stays. A pixel outside the image was computed as the
    // window's first.
#pragma unroll
    for (int q = 1; q < kPixels; ++q) {
      const float here = value(q);
      const bool larger_here =
          static_cast<int>(!(here <= largest)) & static_cast<int>(largest == largest);
      largest = larger_here ? here : largest;
      best = larger_here ? p.slot_position[q] : best;
    }
    if (inside) {
      end.y[at] = largest;
      if constexpr (kPool) end.positions[at] = position + best;
    }
  }
};

/// The whole kernel, of at most kMostWarps.
template <int NT, bool kPool, class End>
__device__ void conv_forward(const ForwardPlan& p, const float* __restrict__ x,
                             const float* __restrict__ weight, const float* __restrict__ bias,
                             const End& last) {
  wait_for_inputs();
  using T = Tile<NT, kPool>;
  auto* ws = reinterpret_cast<float*>(forward_shared);
  auto* biases = reinterpret_cast<float*>(forward_shared + p.bias_at);
  auto* taps = reinterpret_cast<int*>(forward_shared + p.taps_at);
  auto* xs = reinterpret_cast<float*>(forward_shared + p.x_at);
  auto* windows = reinterpret_cast<Window*>(forward_shared + p.windows_at);
  const int channel0 = static_cast<int>(blockIdx.y) * p.block_tiles * 8;
  const int warp = thread_index() / 32;
  const int part = warp & (p.split - 1);
  const int begin = p.steps * part >> p.split_log;
  const int end = p.steps * (part + 1) >> p.split_log;

#pragma unroll 1
  for (auto chunk = static_cast<int>(blockIdx.x); chunk < p.chunks;
       chunk += static_cast<int>(gridDim.x)) {
    const int image0 = divide(chunk, p.by_bands) * p.images;
    const int band_row = (chunk - divide(chunk, p.by_bands) * p.bands) * p.rows;
    const bool first = chunk == static_cast<int>(blockIdx.x);
    if (!first) __syncthreads();  // the chunk before is read
    load_x(p, x, image0, band_row * p.window_stride_h * p.stride_h - p.pad_h, xs);
    stage_windows(p, image0, band_row, windows);
    if (first) {
      stage_taps(p, taps);
      for (int i = thread_index(); i < p.block_tiles * 8; i += block_threads())
        biases[i] = bias && channel0 + i < p.o ? __ldg(bias + channel0 + i) : 0.0F;
      load_weight(p, weight, channel0, ws);
    }
    cuda::wait_all_copies();
    __syncthreads();
    round_all(first ? ws : xs, p.x_floats / 4 + (first ? p.x_at / 16 : 0));
    __syncthreads();

#pragma unroll 1
    for (int item = warp >> p.split_log; item < p.items; item += p.warps >> p.split_log) {
      const int group = divide(item, p.by_groups);
      const int channel = (item - group * static_cast<int>(p.by_groups.divisor)) * NT * 8;
      const Window* mine = windows + group * T::kWindows * 8;
      T tile;
      tile.multiply(p, mine, reinterpret_cast<const char*>(xs), reinterpret_cast<const int2*>(taps),
                    ws + channel * 8, biases + channel, begin, end);
      if (p.split > 1) tile.reduce(p.split, part);
      tile.store(p, mine, channel0 + channel, p.split, part, image0 * p.y_image_stride, last);
    }
  }
}

}  // namespace mica::implicit_gemm
