#pragma once

// The weight gradient as a product by TF32 tensor cores: windows of x (taps by pixels) times dy
// (pixels by channels), summed over the pixels of all images. x lies in shared memory as it is and
// its windows are gathered from there; dy that was pooled is spread out there and nowhere else.
#include "mica/ops/conv2d/cuda_implicit_wgrad_operands.cuh"
#include "mica/runtime/cuda/programmatic_launch.cuh"

namespace mica::implicit_wgrad {

template <int MT, int NT>
__device__ inline void multiply(const Plan& p, const float* ds, const float* xs, const int* pixels,
                                int count, const int (&taps)[MT][2], int part,
                                float (&sum)[MT][NT][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4;
  const int t = lane % 4;
  const float* mine = ds + g * p.dy_pitch + 2 * t;
  const int end = count * p.unit_pixels;
#pragma unroll(MT* NT > 16 ? 1 : 2)
  for (int k = part * 8; k < end; k += p.pixel_warps * 8) {
    // The order of the pixels is the same in both factors, and else of no importance.
    const int2 at = *reinterpret_cast<const int2*>(pixels + k + 2 * t);
    uint2 b[NT];
#pragma unroll
    for (int n = 0; n < NT; ++n)
      b[n] = *reinterpret_cast<const uint2*>(mine + n * 8 * p.dy_pitch + k);
    const auto* windows = reinterpret_cast<const uint32_t*>(xs);
#pragma unroll
    for (int m = 0; m < MT; ++m) {
      const uint32_t a[4] = {windows[taps[m][0] + at.x], windows[taps[m][1] + at.x],
                             windows[taps[m][0] + at.y], windows[taps[m][1] + at.y]};
#pragma unroll
      for (int n = 0; n < NT; ++n) tf32::mma(sum[m][n], a, b[n].x, b[n].y);
    }
  }
}

__device__ inline void add(float4& a, const float4& b) {
  a.x += b.x;
  a.y += b.y;
  a.z += b.z;
  a.w += b.w;
}

/// Adds up what the warps that shared pixels have and writes it to `dw` (C_out, taps).
template <int MT, int NT>
__device__ inline void write_sums(const Plan& p, const Share& s, const float (&sum)[MT][NT][4],
                                  float* dw) {
  constexpr int kPitch = 16 * MT + 4;  // channels start four banks apart
  constexpr int kSize = 8 * NT * kPitch;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float* mine = wgrad_shared + warp * kSize + lane % 4 * 2 * kPitch + lane / 4;
#pragma unroll
  for (int m = 0; m < MT; ++m)
#pragma unroll
    for (int n = 0; n < NT; ++n) {
      float* to = mine + n * 8 * kPitch + m * 16;
      to[0] = sum[m][n][0];
      to[kPitch] = sum[m][n][1];
      to[8] = sum[m][n][2];
      to[kPitch + 8] = sum[m][n][3];
    }
  __syncthreads();
  // A thread has four taps of every so many channels.
  const int fours = p.tap_warps * MT * 4;
  const int first = static_cast<int>(threadIdx.x) / fours;
  const int four = static_cast<int>(threadIdx.x) - first * fours;
  const int step = static_cast<int>(blockDim.x) / fours;
  const int tap = s.first_tap + four * 4;
  if (first >= step || tap >= p.taps) return;
  const float* from = wgrad_shared + four / (MT * 4) * kSize + four % (MT * 4) * 4;
  const int parts = p.pixel_warps;
  const int part_size = p.tap_warps * kSize;
  constexpr int kTogether = 4;  // loads under way
#pragma unroll 1
  for (int o = first; o < s.channels; o += step) {
    float4 all = {0, 0, 0, 0};
#pragma unroll 1
    for (int w = 0; w < parts; w += kTogether) {
      float4 v[kTogether];
#pragma unroll
      for (int k = 0; k < kTogether; ++k)
        v[k] = w + k < parts
                   ? *reinterpret_cast<const float4*>(from + o * kPitch + (w + k) * part_size)
                   : float4{0, 0, 0, 0};
#pragma unroll
      for (int k = 0; k < kTogether; ++k) add(all, v[k]);
    }
    float* to = dw + int64_t{s.first_channel + o} * p.taps + tap;
    if (p.dw_vectors) {
      *reinterpret_cast<float4*>(to) = all;
      continue;
    }
    to[0] = all.x;
    if (tap + 1 < p.taps) to[1] = all.y;
    if (tap + 2 < p.taps) to[2] = all.z;
    if (tap + 3 < p.taps) to[3] = all.w;
  }
}

template <int MT, int NT>
constexpr int most_threads() {
  return MT * NT > 16 ? 384 : 512;
}

/// A warp has 16 · MT taps and 8 · NT channels; the `pixel_warps` of the same tile share the
/// pixels. Every slice makes one part of the result: dw (C_out, taps) and db (C_out).
/// Grid: (slices, tap tiles, channel tiles).
template <int MT, int NT, Kind K>
__global__ void __launch_bounds__(most_threads<MT, NT>(), 1)
    wgrad_tiles(const __grid_constant__ Plan p, const float* __restrict__ dy,
                const int* __restrict__ positions, const float* __restrict__ x, float* dw,
                float* db) {
  wait_for_inputs();
  int* pixels = reinterpret_cast<int*>(wgrad_shared + p.pixels);
  int* windows = reinterpret_cast<int*>(wgrad_shared + p.windows);
  int* taps_at = reinterpret_cast<int*>(wgrad_shared + p.taps_at);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto tap_tile = static_cast<int>(blockIdx.y);
  const auto slice = static_cast<int>(blockIdx.x);
  const int tile_taps = p.tap_warps * 16 * MT;
  Share s;
  s.first_tap = tap_tile * tile_taps;
  s.first_channel = static_cast<int>(blockIdx.z) * 8 * NT;
  s.channels = min(8 * NT, p.out - s.first_channel);
  s.x_first = divided(p.by_window, s.first_tap);
  s.x_channels = divided(p.by_window, min(s.first_tap + tile_taps, p.taps) - 1) + 1 - s.x_first;
  s.unit = slice * p.units_each + min(slice, p.units_more);
  s.end = s.unit + p.units_each + (slice < p.units_more ? 1 : 0);
  float* sums = p.bias && tap_tile == 0 ? wgrad_shared + p.bias_parts : nullptr;

  if (p.clear < p.raw) {
#pragma unroll 1
    for (int i = p.clear / 4 + static_cast<int>(threadIdx.x); i < p.raw / 4; i += blockDim.x)
      reinterpret_cast<float4*>(wgrad_shared)[i] = {0, 0, 0, 0};
    __syncthreads();
  }
  // The buffers of chunk i: as many as there are chunks under way.
  const auto ds = [&](int i) { return wgrad_shared + (is_pooled(K) ? i % 2 : i % 3) * p.dy_size; };
  const auto xs = [&](int i) { return wgrad_shared + p.xs + i % 3 * p.x_size; };
  const auto raw = [&](int i) { return wgrad_shared + p.raw + i % 2 * p.raw_size; };
  const auto unit_of = [&](int i) { return s.unit + i * p.per_chunk; };
  const auto count_of = [&](int i) { return min(p.per_chunk, s.end - unit_of(i)); };
  const auto copy_chunk = [&](int i) {
    if (unit_of(i) >= s.end) return;
    const Unit at = unit_at(p, unit_of(i));
    copy_dy<K>(p, s, at, count_of(i), dy, positions, ds(i), raw(i));
    copy_x<vector_of(K)>(p, s, at, count_of(i), x, xs(i));
  };
  const int tap_warp = warp % p.tap_warps;
  const int part = warp / p.tap_warps;
  int taps[MT][2];  // where the lane's taps lie
  float sum[MT][NT][4] = {};
  // While chunk i is multiplied, i + 1 is made ready and i + 2 copied. Half the warps, of each of
  // the four schedulers, do the one first, half the other. What is read from here on may have been
  // written by the kernel before.
#pragma unroll 1
  for (int i = -2; unit_of(i) < s.end; ++i) {
    if (i > -2) {
      cuda::wait_all_copies();
      __syncthreads();
    }
    copy_chunk(i + 2);
    if (i == -2) {
      make_tables<K>(p, s, tile_taps, pixels, windows, taps_at);
      continue;
    }
    if (i == -1)
#pragma unroll
      for (int m = 0; m < MT; ++m)
#pragma unroll
        for (int k = 0; k < 2; ++k)
          taps[m][k] = taps_at[(tap_warp * MT + m) * 16 + k * 8 + lane / 4];
#pragma unroll 1
    for (int turn = 0; turn < 2; ++turn) {
      if ((turn ^ (warp / 4 & 1)) == 0) {
        if (unit_of(i + 1) < s.end)
          finish<K>(p, s, unit_at(p, unit_of(i + 1)).band, count_of(i + 1), raw(i + 1), ds(i + 1),
                    xs(i + 1), windows, sums, i < 0);
      } else if (i >= 0) {
        multiply(p, ds(i), xs(i), pixels, count_of(i), taps, part, sum);
      }
    }
  }
  __syncthreads();
  write_sums(p, s, sum, dw + int64_t{slice} * p.part_size);
  if (!sums) return;
  const int per_channel = is_pooled(K) ? p.dy_each / (K == Kind::pairs ? 2 : 1) : 32;
#pragma unroll 1
  for (int o = warp; o < s.channels; o += static_cast<int>(blockDim.x) / 32) {
    float all = 0;
#pragma unroll 1
    for (int i = lane; i < per_channel; i += 32) all += sums[o * per_channel + i];
    all = cuda::warp_sum(all);
    if (lane == 0) db[int64_t{slice} * p.part_size + s.first_channel + o] = all;
  }
}

constexpr int kAddColumns = 16;
constexpr int kAddRows = 16;

/// dw and db from the parts: each row of threads takes every sixteenth, then the rows are added in
/// order. A thread has four neighbours.
__global__ void __launch_bounds__(kAddColumns* kAddRows)
    add_wgrad_parts(int weights, int total, int part_size, int parts,
                    const float* __restrict__ partial, float* dw, float* db) {
  wait_for_inputs();
  __shared__ float4 rows[kAddRows][kAddColumns];
  const int i = (static_cast<int>(blockIdx.x) * kAddColumns + static_cast<int>(threadIdx.x)) * 4;
  float4 sum = {0, 0, 0, 0};
  constexpr int kTogether = 8;  // loads under way
  for (int first = static_cast<int>(threadIdx.y); i < total && first < parts;
       first += kTogether * kAddRows) {
    float4 v[kTogether];
#pragma unroll
    for (int k = 0; k < kTogether; ++k) {
      const int part = first + k * kAddRows;
      v[k] = part < parts
                 ? *reinterpret_cast<const float4*>(partial + int64_t{part} * part_size + i)
                 : float4{0, 0, 0, 0};
    }
#pragma unroll
    for (int k = 0; k < kTogether; ++k) add(sum, v[k]);
  }
  rows[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0) return;
  for (int r = 1; r < kAddRows; ++r) add(sum, rows[r][threadIdx.x]);
  const float v[4] = {sum.x, sum.y, sum.z, sum.w};
#pragma unroll
  for (int k = 0; k < 4; ++k)
    if (i + k < total) (i + k < weights ? dw + i + k : db + (i + k - weights))[0] = v[k];
}

}  // namespace mica::implicit_wgrad
