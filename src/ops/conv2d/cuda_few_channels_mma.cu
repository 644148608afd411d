// Convolution of few channels of f16 and bf16 by tensor cores: the weight (channels of y by taps)
// times the windows (taps by pixels), which are gathered from a band of the image in shared memory.
#include <algorithm>

#include "mica/op/choices.h"
#include "mica/ops/conv2d/cuda_few_channels.cuh"
#include "mica/ops/conv2d/cuda_kernels.h"
#include "mica/ops/conv2d/cuda_mma.cuh"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace few {
namespace {

constexpr int kThreads = 256;
constexpr int kRowsOfA = 16;  // channels of y in a product
constexpr int kTaps = 16;     // summed in a product
constexpr int kTilePixels = 32;
constexpr int kLanes = 32;

/// What lies next to what in y: 8 pixels of a dense plane are one access, or the channels that a
/// lane holds.
enum class Stores { pixels, channels, single };

struct MmaPlan {
  Bands b;
  int kernel;
  int steps;   ///< products along the taps
  int groups;  ///< of 16 · MT channels of y
  Stores stores;
  cuda::Divider by_ow;
};

/// Bytes of shared memory before the band of x.
__host__ __device__ inline int operand_bytes(int steps, int products) {
  return products * steps * kLanes * 16 + steps * 4 * 16 + products * kRowsOfA * 4;
}

/// The channel of y in row `half` · 8 + g of product m. A lane has rows g and g + 8 of each: where
/// channels are innermost in y, these are neighbours.
template <int MT>
__device__ int channel_of(Stores stores, int m, int half, int g) {
  return stores == Stores::channels ? g * 2 * MT + 2 * m + half : m * kRowsOfA + half * 8 + g;
}

template <class T>
__device__ uint32_t bits_of(const T* p) {
  return *reinterpret_cast<const uint16_t*>(p);
}

/// Shared memory: the weight as the lanes' registers, the places of the lanes' taps in a band
/// (negative past the last), the bias, the band of x.
template <class T, int MT>
__device__ void load_operands(const MmaPlan& p, const T* weight, const T* bias, int64_t bias_stride,
                              uint4* a, int4* places, float* biases) {
  const Bands& b = p.b;
  const int window = p.kernel * p.kernel;
  const int taps = b.channels * window;
  const auto thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < p.groups * MT * p.steps * kLanes; i += kThreads) {
    const int lane = i % kLanes;
    const int step = i / kLanes % p.steps;
    const int product = i / kLanes / p.steps;
    const int first = product / MT * MT * kRowsOfA;
    const auto pair = [&](int half, int tap) {
      const int o = first + channel_of<MT>(p.stores, product % MT, half, lane / 4);
      uint32_t two[2];
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        const int at = tap + k;
        const int c = at / window;
        const int u = at % window / p.kernel;
        const int v = at % window % p.kernel;
        two[k] = o < b.out && at < taps ? bits_of(weight + o * b.weight[0] + c * b.weight[1] +
                                                  u * b.weight[2] + v * b.weight[3])
                                        : 0;
      }
      return pack(two[0], two[1]);
    };
    const int tap = step * kTaps + lane % 4 * 2;
    a[i] = {pair(0, tap), pair(1, tap), pair(0, tap + 8), pair(1, tap + 8)};
  }
  for (int i = thread; i < p.steps * 4; i += kThreads) {
    const auto place = [&](int tap) {
      const int c = tap / window;
      const int u = tap % window / p.kernel;
      return tap < taps ? (c * b.x_rows + u) * b.pitch + tap % window % p.kernel : -1;
    };
    const int tap = i / 4 * kTaps + i % 4 * 2;
    places[i] = {place(tap), place(tap + 1), place(tap + 8), place(tap + 9)};
  }
  for (int i = thread; i < p.groups * MT * kRowsOfA; i += kThreads) {
    const int row = i % kRowsOfA;
    const int product = i / kRowsOfA;
    const int o =
        product / MT * MT * kRowsOfA + channel_of<MT>(p.stores, product % MT, row / 8, row % 8);
    biases[i] =
        bias && o < b.out ? static_cast<float>(cuda::to_compute(bias[o * bias_stride])) : 0.0F;
  }
}

/// The lane's part of a tile: pixels from `pixel` on, 8 of them, times 2 · MT channels.
template <class T, int MT>
__device__ void store_tile(const MmaPlan& p, const float (&sum)[MT][4][4], int first_channel,
                           int first_row, int pixel, int pixels, int g, T* image) {
  const Bands& b = p.b;
  if (p.stores == Stores::pixels && pixel + 8 <= pixels) {
#pragma unroll
    for (int m = 0; m < MT; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int o = first_channel + channel_of<MT>(p.stores, m, half, g);
        if (o >= b.out) continue;
        cuda::Vec<T, 8> v;
#pragma unroll
        for (int i = 0; i < 8; ++i) v.v[i] = cuda::convert<T>(sum[m][i / 2][half * 2 + i % 2]);
        cuda::store_vec<8>(image + o * b.y[1] + first_row * b.y[2] + pixel, v);
      }
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    if (pixel + i >= pixels) break;
    const auto row = static_cast<int>(p.by_ow.quotient(static_cast<uint32_t>(pixel + i)));
    const int col = pixel + i - row * b.ow;
    T* at = image + (first_row + row) * b.y[2] + col * b.y[3];
    const int o = first_channel + channel_of<MT>(p.stores, 0, 0, g);
    if (p.stores == Stores::channels) {
      if (o >= b.out) break;
      cuda::Vec<T, 2 * MT> v;
#pragma unroll
      for (int m = 0; m < MT; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          v.v[2 * m + half] = cuda::convert<T>(sum[m][i / 2][half * 2 + i % 2]);
      cuda::store_vec<2 * MT>(at + o, v);
    } else {
#pragma unroll
      for (int m = 0; m < MT; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int channel = first_channel + channel_of<MT>(p.stores, m, half, g);
          if (channel < b.out)
            at[channel * b.y[1]] = cuda::convert<T>(sum[m][i / 2][half * 2 + i % 2]);
        }
    }
  }
}

/// One block per band; a warp computes tiles of 32 pixels by 16 · MT channels, in four products of
/// 8 pixels. Column n of product j is pixel 8 · (n / 2) + 2 · j + n % 2 of the tile, so that a lane
/// has 8 neighbours.
template <class T, int MT>
__global__ void __launch_bounds__(kThreads)
    few_forward_mma(MmaPlan p, const T* x, const T* weight, const T* bias, int64_t bias_stride,
                    T* y) {
  const Bands& b = p.b;
  auto* a = reinterpret_cast<uint4*>(few_shared);
  auto* places = reinterpret_cast<int4*>(a + p.groups * MT * p.steps * kLanes);
  auto* biases = reinterpret_cast<float*>(places + p.steps * 4);
  auto* xs = reinterpret_cast<uint16_t*>(biases + p.groups * MT * kRowsOfA);
  const auto count = static_cast<unsigned>(b.count);
  const int64_t n = blockIdx.x / count;
  const int first = static_cast<int>(blockIdx.x % count) * b.rows;
  load_x(b, x + n * b.x[0], first, reinterpret_cast<T*>(xs));
  load_operands<T, MT>(p, weight, bias, bias_stride, a, places, biases);
  __syncthreads();

  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int g = lane / 4;
  const int t = lane % 4;
  const int pixels = (first + b.rows <= b.oh ? b.rows : b.oh - first) * b.ow;
  const int tiles = cuda::ceil_div(pixels, kTilePixels);
  for (int item = static_cast<int>(threadIdx.x) / kLanes; item < tiles * p.groups;
       item += kThreads / kLanes) {
    const int group = item / tiles;
    const int tile = (item - group * tiles) * kTilePixels;
    const uint16_t* from[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int wanted = tile + g / 2 * 8 + 2 * j + g % 2;
      const int pixel = wanted < pixels ? wanted : 0;
      const auto row = static_cast<int>(p.by_ow.quotient(static_cast<uint32_t>(pixel)));
      from[j] = xs + row * b.pitch + pixel - row * b.ow;
    }
    float sum[MT][4][4];
#pragma unroll
    for (int m = 0; m < MT; ++m)
#pragma unroll
      for (int j = 0; j < 4; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          sum[m][j][i] = biases[(group * MT + m) * kRowsOfA + i / 2 * 8 + g];
    for (int s = 0; s < p.steps; ++s) {
      const int4 place = places[s * 4 + t];
      uint4 left[MT];
#pragma unroll
      for (int m = 0; m < MT; ++m) left[m] = a[((group * MT + m) * p.steps + s) * kLanes + lane];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        // Past the last tap a zero, for what lies there may be infinite.
        const auto get = [&](int at) { return at >= 0 ? uint32_t{from[j][at]} : 0U; };
        const uint32_t b0 = pack(get(place.x), get(place.y));
        const uint32_t b1 = pack(get(place.z), get(place.w));
#pragma unroll
        for (int m = 0; m < MT; ++m) mma<T>(sum[m][j], left[m], b0, b1);
      }
    }
    store_tile<T, MT>(p, sum, group * MT * kRowsOfA, first, tile + t * 8, pixels, g,
                      y + n * b.y[0]);
  }
}

/// Few images are cut into bands of 256 pixels or more, many into as many as keep the
/// multiprocessors busy.
Bands mma_bands(const Conv2dGeometry& g, int multiprocessors) {
  const int64_t wanted = cuda::ceil_div<int64_t>(int64_t{multiprocessors} * 4, g.n);
  const int64_t least = cuda::ceil_div<int64_t>(kThreads, g.ow);
  return bands_of(g, std::max(least, cuda::ceil_div<int64_t>(g.oh, wanted)));
}

size_t shared_bytes(const Bands& b, int64_t kernel) {
  const int steps = cuda::ceil_div(b.channels * static_cast<int>(kernel * kernel), kTaps);
  const int products = cuda::ceil_div(b.out, 2 * kRowsOfA) * 2;
  const int bytes = operand_bytes(steps, products) + b.x_size() * 2;
  return static_cast<size_t>(bytes);
}

Support supports(const Conv2dParams& params, const Specs& specs) {
  if (specs.out[0].dtype == DType::f32) return Support::no("f32 is not for tensor cores");
  const auto g = conv2d_geometry("conv2d", params, specs.in[0].shape, specs.in[1].shape);
  const auto reason = refusal(g, specs.out[0]);
  if (!reason.empty()) return Support::no(reason);
  Encoder* encoder = runtime(DeviceKind::cuda).encoder(specs.out[0].device.index);
  if (shared_bytes(mma_bands(g, encoder->multiprocessors()), g.kh) > kMostShared)
    return Support::no("a band is too large");
  return Support::yes();
}

void run(const Conv2dParams& params, const Call& call) {
  const Arg& x = call.in[0];
  const Arg& weight = call.in[1];
  const Arg& bias = call.in[2];
  const Arg& y = call.out[0];
  const auto g = conv2d_geometry("conv2d", params, x.shape(), weight.shape());
  MmaPlan p{};
  p.b = mma_bands(g, call.encoder->multiprocessors());
  set_strides(p.b, x, weight, y);
  p.kernel = static_cast<int>(g.kh);
  p.steps = cuda::ceil_div(p.b.channels * p.kernel * p.kernel, kTaps);
  p.by_ow = cuda::Divider(static_cast<uint32_t>(g.ow));
  const auto launch = [&]<class T, int MT>() {
    p.groups = cuda::ceil_div(p.b.out, MT * kRowsOfA);
    p.stores = planes_of_eights(p.b, y) ? Stores::pixels
               : fours_along(1, y)      ? Stores::channels
                                        : Stores::single;
    const int bytes = operand_bytes(p.steps, p.groups * MT) + p.b.x_size() * 2;
    call.encoder->launch(few_forward_mma<T, MT>, static_cast<unsigned>(g.n * p.b.count), kThreads,
                         static_cast<size_t>(bytes), p, x.as<const T>(), weight.as<const T>(),
                         bias.defined() ? bias.as<const T>() : nullptr,
                         bias.defined() ? bias.strides()[0] : 0, y.as<T>());
  };
  const auto with = [&]<class T>() {
    p.b.out <= kRowsOfA ? launch.template operator()<T, 1>() : launch.template operator()<T, 2>();
  };
  y.dtype() == DType::f16 ? with.template operator()<__half>()
                          : with.template operator()<__nv_bfloat16>();
}

}  // namespace
}  // namespace few

Kernel conv2d_few_channels_mma_kernel() {
  return timed_kernel<few::supports, few::run>("few_channels_mma");
}

}  // namespace mica
