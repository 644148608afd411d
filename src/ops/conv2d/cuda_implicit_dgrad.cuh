#pragma once

// The input gradient of a convolution as a matrix product, by TF32 tensor cores. Its rows are the
// places (row of dx, column of dy), its columns the pairs (tap of a kernel's row, channel of dx),
// its sum runs over the kernel's rows and dy's channels:
//   part[r, j, v, c] = sum over u, o of dy[o, r + pad - u, j] weight[o, c, u, v].
// dx is then a short sum of shifted parts: dx[c, r, x] = sum over v of part[r, x + pad - v, v, c].
// So a tap is a shift by whole rows of dy, which lie one after the other in shared memory: sixteen
// places are sixteen neighbours there, whatever the width, and nothing is spent on padding columns.
// Run-time compilation takes this file as it is.
#include "mica/runtime/cuda/async_copy.cuh"
#include "mica/runtime/cuda/programmatic_launch.cuh"
#include "mica/runtime/cuda/tf32.cuh"
#include "mica/runtime/cuda/types.cuh"

namespace mica::implicit_dgrad {

constexpr int kSlack = 16;        // floats before the parts; a kernel's row is not longer
constexpr int kWeightGroups = 2;  // the product starts when the first has arrived

/// How a problem is cut into blocks and a block into warps. A block has all rows of dx of some
/// images, or a band of rows of one; and a part of dx's channels.
struct Plan {
  int n = 0, c = 0, h = 0, w = 0;  ///< of dx
  int o = 0, oh = 0, ow = 0;       ///< of dy before the pooling
  int kh = 0, kw = 0, pad_h = 0, pad_w = 0;
  int pool_h = 1, pool_w = 1;      ///< a window; one element where nothing was pooled
  int pooled_h = 0, pooled_w = 0;  ///< of the dy that is given
  int images = 1, bands = 1;       ///< one of them is 1
  int rows = 0;                    ///< of dx in a band
  int channels = 0, splits = 1;    ///< of dx in a block, and blocks side by side
  int warps_m = 1, warps_n = 1, warps_k = 1;
  int steps = 0;       ///< of 8 channels of dy
  int dy_rows = 0;     ///< of a channel in shared memory, zeros above and below included
  int image_rows = 0;  ///< from one image to the next; zeros between them serve both
  int dy_pitch = 0;    ///< of a channel in shared memory
  int weight_pitch = 0;
  int part_pitch = 0;
  int run = 0;            ///< elements of a channel of the given dy that a block reads
  int weight_vector = 1;  ///< elements of a copy
  cuda::Divider by_ow, by_places, by_run, by_o, by_w, by_row_groups, by_kw;
};

extern __shared__ __align__(16) float dgrad_shared[];

__device__ inline void copy_async(int floats, float* to, const float* from) {
  if (floats == 4) {
    cuda::copy_async<16>(to, from);
  } else if (floats == 2) {
    cuda::copy_async<8>(to, from);
  } else {
    cuda::copy_async<4>(to, from);
  }
}

/// Rows [first, last) of the weight (C_out, channels · window), zeros past the last channel. Each
/// block begins with another row, so that not all ask for one place of the L2 cache at once.
__device__ inline void load_weight(const Plan& p, const float* weight, int channel0, int first,
                                   int last, float* ws) {
  const int window = p.kh * p.kw;
  const int count = min(p.c - channel0, p.channels) * window;
  const auto rows = static_cast<uint32_t>(last - first);
  const auto turn = static_cast<int>(__umulhi(blockIdx.x * 0x9e3779b9U, rows));
#pragma unroll 1
  for (int k = static_cast<int>(threadIdx.x) / 32; k < last - first;
       k += static_cast<int>(blockDim.x) / 32) {
    const int o = k + turn < last - first ? first + k + turn : k + turn - (last - first) + first;
    float* to = ws + o * p.weight_pitch;
    const float* from = weight + (static_cast<int64_t>(o) * p.c + channel0) * window;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (o >= p.o) {
      for (int i = lane; i < p.weight_pitch; i += 32) to[i] = 0;
    } else {
#pragma unroll 2
      for (int i = lane * p.weight_vector; i < count; i += 32 * p.weight_vector)
        copy_async(p.weight_vector, to + i, from + i);
    }
  }
}

/// Shares `count` items among the threads: each has one of those from `start` on, and works on it
/// in one of `groups`.
struct Share {
  int item, group, groups;
};
__device__ inline Share share(int start, int count) {
  const auto threads = static_cast<int>(blockDim.x);
  const int here = min(count - start, threads);
  const int groups = threads / here;
  const int group = static_cast<int>(threadIdx.x) / here;
  return {start + static_cast<int>(threadIdx.x) - group * here, group, groups};
}

/// Elements of dy that the block's rows meet, on their way into shared memory: in each round a
/// thread has Floats neighbours of a channel, kAtOnce times. Without positions each is at its own.
template <int Floats>
struct Spread {
  static constexpr int kAtOnce = Floats == 4 ? 3 : 4;
  const Plan& p;
  const float* dy;  // of the block's first image, from the first row that is wanted on
  const int* positions;
  int skip;   // elements of a channel before that row
  int total;  // groups of Floats elements
  int at = static_cast<int>(threadIdx.x);
  float value[kAtOnce][Floats];
  int position[kAtOnce][Floats];
  int place[kAtOnce];

  __device__ void load() {
    const auto each = static_cast<int>(p.by_run.divisor);
    const int plane = p.pooled_h * p.pooled_w;
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const int i = at + k * static_cast<int>(blockDim.x);
      const auto channel = static_cast<int>(p.by_run.quotient(static_cast<uint32_t>(i)));
      const auto image = static_cast<int>(p.by_o.quotient(static_cast<uint32_t>(channel)));
      const int in_run = (i - channel * each) * Floats;
      place[k] = -1;
      if (i >= total || skip + in_run >= plane) continue;
      const int64_t from = static_cast<int64_t>(channel) * plane + in_run;
      place[k] = (channel - image * p.o) * p.dy_pitch + image * p.image_rows * p.ow;
#pragma unroll
      for (int f = 0; f < Floats; ++f) position[k][f] = skip + in_run + f;
      if constexpr (Floats == 4) {
        *reinterpret_cast<float4*>(value[k]) = *reinterpret_cast<const float4*>(dy + from);
        if (positions)
          *reinterpret_cast<int4*>(position[k]) = *reinterpret_cast<const int4*>(positions + from);
      } else {
        value[k][0] = dy[from];
        if (positions) position[k][0] = positions[from];
      }
    }
  }
  /// `before` places of a channel lie before its first in shared memory, which has `places`.
  __device__ void store(int before, int places, float* ds) const {
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
#pragma unroll
      for (int f = 0; f < Floats; ++f) {
        const int to = position[k][f] - before;
        if (place[k] >= 0 && to >= 0 && to < places)
          ds[place[k] + to] = __uint_as_float(tf32::round(value[k][f]));
      }
  }
  __device__ bool next() {
    at += kAtOnce * static_cast<int>(blockDim.x);
    return at < total;
  }
};

/// Column n of the product. Whole eights of channels come first: the lanes of a product then read
/// the weight from as many banks, where a window has an odd number of taps.
struct Column {
  int channel, tap;
};
__device__ inline Column column_at(const Plan& p, int n) {
  const int whole = p.channels / 8 * 8;
  if (n < whole * p.kw) {
    const int tile = n / 8;
    const auto eight = static_cast<int>(p.by_kw.quotient(static_cast<uint32_t>(tile)));
    return {eight * 8 + n % 8, tile - eight * p.kw};
  }
  const int rest = n - whole * p.kw;
  const auto c = static_cast<int>(p.by_kw.quotient(static_cast<uint32_t>(rest)));
  return {whole + c, rest - c * p.kw};
}

/// Where results go: to dx, but 0 where x_relu, if there is one, is not positive. That is asked
/// before they are computed.
struct DgradEnd {
  const float* __restrict__ x_relu;
  float* __restrict__ dx;
  __device__ bool passes(int64_t at) const { return !x_relu || x_relu[at] > 0.0F; }
  __device__ void store(int64_t at, bool passes, float sum) const { dx[at] = passes ? sum : 0.0F; }
};
/// The same of a program.
template <class Program>
struct ProgramEnd {
  Program program;
  __device__ bool passes(int64_t) const { return true; }
  __device__ void store(int64_t at, bool, float sum) const {
    float one[1] = {sum};
    program(at, one);
  }
};

/// dx of the block, from `image0` on, from the parts (warps_k, columns, places), for kernels of KW
/// taps in a row or with 0 of any number.
template <int KW, class End>
__device__ inline void store_dx(const Plan& p, const float* parts, int columns, int images,
                                int channel0, int first_row, int64_t image0, const End& end) {
  constexpr int kRows = 4;
  const int taps = KW ? KW : p.kw;
  const auto row_groups = static_cast<int>(p.by_row_groups.divisor);
  const int rows = min(p.rows, p.h - first_row);
  const int items = p.channels * p.w;
#pragma unroll 1
  for (int start = 0; start < items; start += static_cast<int>(blockDim.x)) {
    const auto [item, group, groups] = share(start, items);
    const auto c = static_cast<int>(p.by_w.quotient(static_cast<uint32_t>(item)));
    const int x = item - c * p.w;
    if (group >= groups || channel0 + c >= p.c) continue;
    const int whole = p.channels / 8 * 8;
    const int column = c < whole ? c / 8 * 8 * p.kw + c % 8 : whole * p.kw + (c - whole) * p.kw;
    const int next = (c < whole ? 8 : 1) * p.part_pitch - 1;
    const int first = x + p.pad_w - p.ow + 1;
    const int last = x + p.pad_w;
#pragma unroll 1
    for (int unit = group; unit < images * row_groups; unit += groups) {
      const auto image = static_cast<int>(p.by_row_groups.quotient(static_cast<uint32_t>(unit)));
      const int row = (unit - image * row_groups) * kRows;
      const float* from =
          parts + column * p.part_pitch + (image * p.rows + row) * p.ow + x + p.pad_w;
      const int64_t place =
          image0 +
          ((static_cast<int64_t>(image) * p.c + channel0 + c) * p.h + first_row + row) * p.w + x;
      bool passes[kRows];
#pragma unroll
      for (int r = 0; r < kRows; ++r) passes[r] = row + r < rows && end.passes(place + r * p.w);
      float sum[kRows] = {};
#pragma unroll 1
      for (int k = 0; k < p.warps_k; ++k, from += columns * p.part_pitch) {
#pragma unroll
        for (int v = 0; v < taps; ++v)
#pragma unroll
          for (int r = 0; r < kRows; ++r) {
            const float part = from[v * next + r * p.ow];  // of another row where v is outside
            sum[r] += v >= first && v <= last ? part : 0.0F;
          }
      }
#pragma unroll
      for (int r = 0; r < kRows; ++r)
        if (row + r < rows) end.store(place + r * p.w, passes[r], sum[r]);
    }
  }
}

/// A shared-memory address in bytes; a part that all lanes have in common costs no instruction.
__device__ inline float read(uint32_t at) {
  float v;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(v) : "r"(at));
  return v;
}

/// A warp has MT products of 16 places times NT of 8 columns, and every `warps_k`-th step.
template <int MT, int NT, int Warps, int Floats, class End>
__device__ void conv2d_dgrad_rows(const Plan& p, const float* __restrict__ dy,
                                  const int* __restrict__ positions,
                                  const float* __restrict__ weight, const End& last) {
  wait_for_inputs();
  float* ds = dgrad_shared;
  float* ws = dgrad_shared + p.steps * 8 * p.dy_pitch;
  const auto split = static_cast<int>(blockIdx.x % static_cast<unsigned>(p.splits));
  const auto rest = static_cast<int>(blockIdx.x / static_cast<unsigned>(p.splits));
  const int first_row = rest % p.bands * p.rows;
  const int first_image = rest / p.bands * p.images;
  const int images = p.n - first_image < p.images ? p.n - first_image : p.images;
  const int channel0 = split * p.channels;
  const int first_y = first_row + p.pad_h - (p.kh - 1);

  // dy is on its way while its place is cleared and the weight's copies begin.
  const int64_t image_size = static_cast<int64_t>(p.pooled_h) * p.pooled_w * p.o;
  const int skip = max(first_y, 0) / p.pool_h * p.pooled_w;
  const int64_t from = first_image * image_size + skip;
  Spread<Floats> spread{p, dy + from, positions ? positions + from : nullptr, skip,
                        images * p.o * static_cast<int>(p.by_run.divisor)};
  spread.load();
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x) * 4; i < p.steps * 8 * p.dy_pitch; i += Warps * 32 * 4)
    *reinterpret_cast<float4*>(ds + i) = {0, 0, 0, 0};
  const int half = (p.steps + kWeightGroups - 1) / kWeightGroups;
#pragma unroll 1
  for (int k = 0; k < kWeightGroups; ++k) {
    load_weight(p, weight, channel0, k * half * 8, min((k + 1) * half, p.steps) * 8, ws);
    cuda::commit_copies();
  }
  __syncthreads();
  const int before = first_y * p.ow;
  const int dy_places = p.images > 1 ? p.image_rows * p.ow : p.dy_rows * p.ow;
  spread.store(before, dy_places, ds);
#pragma unroll 1
  while (spread.next()) {
    spread.load();
    spread.store(before, dy_places, ds);
  }

  const auto lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = __shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0);  // uniform
  const int g = lane / 4;
  const int t = lane % 4;
  const int warp_m = warp % p.warps_m;
  const int warp_n = warp / p.warps_m % p.warps_n;
  const int warp_k = warp / p.warps_m / p.warps_n;
  const int image_places = p.rows * p.ow;
  const int places = images * image_places;

  const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(dgrad_shared));
  uint32_t near[MT];  // addresses of the lane's rows of the products in the first channels of dy
  uint32_t far[MT];
#pragma unroll
  for (int m = 0; m < MT; ++m) {
    const auto place_of = [&](int wanted) {
      const int place = wanted < places ? wanted : 0;
      const auto image = static_cast<int>(p.by_places.quotient(static_cast<uint32_t>(place)));
      return shared + static_cast<uint32_t>(t * p.dy_pitch + place +
                                            image * (p.image_rows * p.ow - image_places)) *
                          4;
    };
    const int start = (warp_m * MT + m) * 16;
    near[m] = place_of(start + g);
    far[m] = place_of(start + g + 8);
  }
  // The rows of the kernel that meet dy somewhere in the warp's products.
  int first_tap = 0;
  int last_tap = p.kh - 1;
  const int first_place = warp_m * MT * 16;
  const int last_place = min(first_place + MT * 16, places) - 1;
  if (first_place > last_place || warp_k >= p.warps_k) {
    last_tap = -1;
  } else if (last_place < image_places) {
    const auto row_of = [&](int place) {
      return first_row + p.pad_h + static_cast<int>(p.by_ow.quotient(static_cast<uint32_t>(place)));
    };
    first_tap = max(row_of(first_place) - p.oh + 1, 0);
    last_tap = min(row_of(last_place), p.kh - 1);
  }
  uint32_t right[NT];  // addresses of the lane's columns in the first rows of the weight
#pragma unroll
  for (int j = 0; j < NT; ++j) {
    const int n = (warp_n * NT + j) * 8 + g;
    const Column at = column_at(p, n < p.channels * p.kw ? n : 0);
    right[j] = shared + static_cast<uint32_t>(p.steps * 8 * p.dy_pitch + t * p.weight_pitch +
                                              at.channel * p.kh * p.kw + at.tap) *
                            4;
  }

  float sum[MT][NT][4] = {};
#pragma unroll 1
  for (int group = 0; group < kWeightGroups; ++group) {
    group == 0 ? cuda::wait_copies<kWeightGroups - 1>() : cuda::wait_copies<0>();
    __syncthreads();
    const int begin = group * half;
    const int end = min(begin + half, p.steps);
#pragma unroll 1
    for (int u = first_tap; u <= last_tap; ++u) {
      const int first = begin + ((warp_k + u) & (p.warps_k - 1));
      auto left_at = static_cast<uint32_t>(first * 8 * p.dy_pitch + (p.kh - 1 - u) * p.ow) * 4;
      auto right_at = static_cast<uint32_t>(first * 8 * p.weight_pitch + u * p.kw) * 4;
      const auto left_step = static_cast<uint32_t>(p.warps_k * p.dy_pitch) * 32;
      const auto right_step = static_cast<uint32_t>(p.warps_k * p.weight_pitch) * 32;
#pragma unroll 1
      for (int s = first; s < end; s += p.warps_k, left_at += left_step, right_at += right_step) {
        const auto left_next = left_at + static_cast<uint32_t>(p.dy_pitch) * 16;
        const auto right_next = right_at + static_cast<uint32_t>(p.weight_pitch) * 16;
        float b[NT][2];
#pragma unroll
        for (int j = 0; j < NT; ++j) {
          b[j][0] = read(right[j] + right_at);
          b[j][1] = read(right[j] + right_next);
        }
        uint32_t a[MT][4];
#pragma unroll
        for (int m = 0; m < MT; ++m) {
          a[m][0] = __float_as_uint(read(near[m] + left_at));
          a[m][1] = __float_as_uint(read(far[m] + left_at));
          a[m][2] = __float_as_uint(read(near[m] + left_next));
          a[m][3] = __float_as_uint(read(far[m] + left_next));
        }
        uint32_t rounded[NT][2];
#pragma unroll
        for (int j = 0; j < NT; ++j) {
          rounded[j][0] = tf32::round(b[j][0]);
          rounded[j][1] = tf32::round(b[j][1]);
        }
#pragma unroll
        for (int m = 0; m < MT; ++m)
#pragma unroll
          for (int j = 0; j < NT; ++j) tf32::mma(sum[m][j], a[m], rounded[j][0], rounded[j][1]);
      }
    }
  }

  __syncthreads();  // the parts take the operands' memory

  const int columns = p.warps_n * NT * 8;
  if (warp_k < p.warps_k) {
    float* parts = dgrad_shared + kSlack + warp_k * columns * p.part_pitch;
#pragma unroll
    for (int m = 0; m < MT; ++m)
#pragma unroll
      for (int j = 0; j < NT; ++j) {
        float* to =
            parts + ((warp_n * NT + j) * 8 + 2 * t) * p.part_pitch + (warp_m * MT + m) * 16 + g;
        to[0] = sum[m][j][0];
        to[p.part_pitch] = sum[m][j][1];
        to[8] = sum[m][j][2];
        to[p.part_pitch + 8] = sum[m][j][3];
      }
  }

  __syncthreads();
  const int64_t image0 = static_cast<int64_t>(first_image) * p.c * p.h * p.w;
  const float* parts = dgrad_shared + kSlack;
  if (p.kw == 3) {
    store_dx<3>(p, parts, columns, images, channel0, first_row, image0, last);
  } else if (p.kw == 5) {
    store_dx<5>(p, parts, columns, images, channel0, first_row, image0, last);
  } else {
    store_dx<0>(p, parts, columns, images, channel0, first_row, image0, last);
  }
}

}  // namespace mica::implicit_dgrad
