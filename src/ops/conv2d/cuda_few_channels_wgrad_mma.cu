// The weight gradient of convolutions of few channels of f16 and bf16 by tensor cores: dy (channels
// by pixels) times the windows (pixels by taps), which are gathered from a band of the image.
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
constexpr int kWarps = kThreads / 32;
constexpr int kBandPixels = 256;  // or a row
constexpr int kChunk = 16;        // pixels summed in a product
constexpr int kRowsOfA = 16;      // channels of dy in a product
constexpr int kTapTiles = 4;      // products of 8 taps that a warp has side by side
constexpr int kWarpTaps = 8 * kTapTiles;
constexpr uint32_t kNoPixel = 0xffff;

struct WgradPlan {
  Bands b;
  int kernel;
  int taps;
  int tap_groups;  ///< of 32 taps
  int items;       ///< pairs of a group of taps and one of 16 · MT channels: a warp has one
  int chunks;      ///< of 16 pixels in a band
  int pitch;       ///< elements of a channel of dy in shared memory
  int64_t units;   ///< bands of all images
  bool vectors;    ///< 8 pixels of dy, counted through its rows, are one access
  bool channels_inner;
  cuda::Divider by_ow, by_chunk_pixels;
};

/// dy of a band, (channels, pixels), zeros past the last of either.
template <class T>
__device__ void load_dy(const WgradPlan& p, const T* image, int first, int pixels, int padded,
                        T* ds) {
  const Bands& b = p.b;
  const int width = p.chunks * kChunk;
  const T zero = cuda::convert<T>(0.0F);
  if (p.vectors) {
    for (auto i = static_cast<int>(threadIdx.x); i < padded * (width / 8); i += kThreads) {
      const auto o = static_cast<int>(p.by_chunk_pixels.quotient(static_cast<uint32_t>(i) * 8));
      const int pixel = i * 8 - o * width;
      cuda::Vec<T, 8> v;
#pragma unroll
      for (int k = 0; k < 8; ++k) v.v[k] = zero;
      if (o < b.out && pixel < pixels)
        v = cuda::load_vec<8>(image + o * b.y[1] + first * b.y[2] + pixel);
      cuda::store_vec<8>(ds + o * p.pitch + pixel, v);
    }
    return;
  }
  for (auto i = static_cast<int>(threadIdx.x); i < padded * width; i += kThreads) {
    int o;
    int pixel;
    if (p.channels_inner) {
      pixel = i / padded;
      o = i - pixel * padded;
    } else {
      o = static_cast<int>(p.by_chunk_pixels.quotient(static_cast<uint32_t>(i)));
      pixel = i - o * width;
    }
    const auto row = static_cast<int>(p.by_ow.quotient(static_cast<uint32_t>(pixel)));
    ds[o * p.pitch + pixel] =
        o < b.out && pixel < pixels
            ? image[o * b.y[1] + (first + row) * b.y[2] + (pixel - row * b.ow) * b.y[3]]
            : zero;
  }
}

/// Two neighbouring 16-bit values, the first at an even place.
__device__ inline uint32_t load_pair(const uint16_t* at) {
  return *reinterpret_cast<const uint32_t*>(at);
}

/// partial (blocks, C_out, taps): each block sums its bands. A warp has 16 · MT channels and 32
/// taps, and every `parts`-th chunk of the pixels.
template <class T, int MT>
__global__ void __launch_bounds__(kThreads)
    few_wgrad_mma(WgradPlan p, const T* dy, const T* x, float* partial) {
  const Bands& b = p.b;
  const int padded = p.items / p.tap_groups * MT * kRowsOfA;
  auto* ds = reinterpret_cast<uint16_t*>(few_shared);
  uint16_t* places = ds + padded * p.pitch;  // of a band's pixels in xs
  uint16_t* xs = places + p.chunks * kChunk;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int g = lane / 4;
  const int t = lane % 4;
  const int item = warp % p.items;
  const int part = warp / p.items;
  const int parts = kWarps / p.items;
  const int first_tap = item % p.tap_groups * kWarpTaps;
  const int first_channel = item / p.tap_groups * MT * kRowsOfA;
  int offsets[kTapTiles];  // of the lane's taps; what the first has in place of those past the last
#pragma unroll
  for (int k = 0; k < kTapTiles; ++k) {
    const int tap = first_tap + k * 8 + g;
    const int window = p.kernel * p.kernel;
    const int c = tap / window;
    const int u = tap % window / p.kernel;
    offsets[k] = tap < p.taps ? (c * b.x_rows + u) * b.pitch + tap % window % p.kernel : 0;
  }
  float sum[MT][kTapTiles][4] = {};
  for (int64_t unit = blockIdx.x; unit < p.units; unit += gridDim.x) {
    const int64_t n = unit / b.count;
    const int first = static_cast<int>(unit - n * b.count) * b.rows;
    const int pixels = (first + b.rows <= b.oh ? b.rows : b.oh - first) * b.ow;
    __syncthreads();  // the band before is done
    load_x(b, x + n * b.x[0], first, reinterpret_cast<T*>(xs));
    load_dy(p, dy + n * b.y[0], first, pixels, padded, reinterpret_cast<T*>(ds));
    for (auto i = static_cast<int>(threadIdx.x); i < p.chunks * kChunk; i += kThreads) {
      const auto row = static_cast<int>(p.by_ow.quotient(static_cast<uint32_t>(i)));
      places[i] = static_cast<uint16_t>(i < pixels ? row * b.pitch + i - row * b.ow : kNoPixel);
    }
    __syncthreads();
    for (int chunk = part < parts ? part : p.chunks; chunk < p.chunks; chunk += parts) {
      const int pixel = chunk * kChunk + t * 2;
      uint4 left[MT];
#pragma unroll
      for (int m = 0; m < MT; ++m) {
        const uint16_t* upper = ds + (first_channel + m * kRowsOfA + g) * p.pitch + pixel;
        const uint16_t* lower = upper + 8 * p.pitch;
        left[m] = {load_pair(upper), load_pair(lower), load_pair(upper + 8), load_pair(lower + 8)};
      }
      const uint32_t near = load_pair(places + pixel);
      const uint32_t far = load_pair(places + pixel + 8);
#pragma unroll
      for (int k = 0; k < kTapTiles; ++k) {
        // Past the last pixel a zero, for what lies there may be infinite.
        const auto get = [&](uint32_t place) {
          return place != kNoPixel ? uint32_t{xs[static_cast<int>(place) + offsets[k]]} : 0U;
        };
        const uint32_t b0 = pack(get(near & 0xffffU), get(near >> 16));
        const uint32_t b1 = pack(get(far & 0xffffU), get(far >> 16));
#pragma unroll
        for (int m = 0; m < MT; ++m) mma<T>(sum[m][k], left[m], b0, b1);
      }
    }
  }
  // The warps' sums meet in shared memory and are added in their order.
  constexpr int kSums = MT * kTapTiles * 4 * 32;
  __syncthreads();
#pragma unroll
  for (int m = 0; m < MT; ++m)
#pragma unroll
    for (int k = 0; k < kTapTiles; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        few_shared[warp * kSums + ((m * kTapTiles + k) * 4 + i) * 32 + lane] = sum[m][k][i];
  __syncthreads();
  if (part > 0) return;
  const int64_t total = int64_t{b.out} * p.taps;
#pragma unroll
  for (int m = 0; m < MT; ++m)
#pragma unroll
    for (int k = 0; k < kTapTiles; ++k)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int at = ((m * kTapTiles + k) * 4 + i) * 32 + lane;
        float all = 0;
        for (int r = 0; r < parts; ++r) all += few_shared[(r * p.items + item) * kSums + at];
        const int o = first_channel + m * kRowsOfA + i / 2 * 8 + g;
        const int tap = first_tap + k * 8 + t * 2 + i % 2;
        if (o < b.out && tap < p.taps)
          partial[blockIdx.x * total + int64_t{o} * p.taps + tap] = all;
      }
}

/// Products of 16 channels that a warp has below each other.
int products_of(int64_t channels) { return channels <= kRowsOfA ? 1 : 2; }

WgradPlan plan_of(const Conv2dGeometry& g) {
  WgradPlan p{};
  p.b = bands_of(g, kBandPixels / g.ow);
  p.kernel = static_cast<int>(g.kh);
  p.taps = static_cast<int>(g.window());
  p.tap_groups = cuda::ceil_div(p.taps, kWarpTaps);
  p.items = p.tap_groups * cuda::ceil_div(p.b.out, products_of(g.o) * kRowsOfA);
  p.chunks = cuda::ceil_div(p.b.rows * p.b.ow, kChunk);
  // Channels start four banks apart.
  p.pitch = cuda::ceil_div(p.chunks * kChunk, 64) * 64 + 8;
  p.units = g.n * p.b.count;
  p.by_ow = cuda::Divider(static_cast<uint32_t>(g.ow));
  p.by_chunk_pixels = cuda::Divider(static_cast<uint32_t>(p.chunks * kChunk));
  return p;
}

size_t shared_bytes(const WgradPlan& p) {
  const int products = products_of(p.b.out);
  const int padded = p.items / p.tap_groups * products * kRowsOfA;
  const int operands = 2 * (padded * p.pitch + p.chunks * kChunk + p.b.x_size());
  const int sums = 4 * kWarps * products * kTapTiles * 4 * 32;
  return static_cast<size_t>(std::max(operands, sums));
}

struct WgradState : KernelState {
  int blocks = 0;
};

Support supports(const Conv2dGradParams& params, const Specs& specs) {
  if (specs.out[0].dtype == DType::f32) return Support::no("f32 is not for tensor cores");
  if (!specs.out[0].is_contiguous()) return Support::no("the output is not row-major");
  const auto g = conv2d_geometry("conv2d_wgrad", params.conv, specs.in[1].shape, params.shape);
  const auto reason = refusal(g, specs.out[0]);
  if (!reason.empty()) return Support::no(reason);
  const WgradPlan p = plan_of(g);
  if (p.items > kWarps || p.b.x_size() > static_cast<int>(kNoPixel) ||
      shared_bytes(p) > kMostShared)
    return Support::no("a band is too large");
  return Support::yes();
}

std::shared_ptr<WgradState> prepare(const Conv2dGradParams& params, const Specs& specs) {
  const auto g = conv2d_geometry("conv2d_wgrad", params.conv, specs.in[1].shape, params.shape);
  const int sms = runtime(DeviceKind::cuda).encoder(specs.out[0].device.index)->multiprocessors();
  auto state = std::make_shared<WgradState>();
  // As many blocks as run at once, with as many bands each.
  const int64_t units = plan_of(g).units;
  const int64_t rounds = cuda::ceil_div<int64_t>(units, int64_t{sms} * 3);
  state->blocks = static_cast<int>(cuda::ceil_div(units, rounds));
  state->workspace_bytes = sizeof(float) * static_cast<size_t>(state->blocks) *
                           static_cast<size_t>(specs.out[0].numel());
  return state;
}

void run(const Conv2dGradParams& params, const WgradState& state, const Call& call) {
  const Arg& dy = call.in[0];
  const Arg& x = call.in[1];
  const Arg& dw = call.out[0];
  WgradPlan p = plan_of(conv2d_geometry("conv2d_wgrad", params.conv, x.shape(), params.shape));
  set_strides(p.b, x, dw, dy);
  p.vectors = planes_of_eights(p.b, dy);
  p.channels_inner = dy.strides()[1] < dy.strides()[3];
  auto* partial = static_cast<float*>(call.workspace);
  const auto launch = [&]<class T, int MT>() {
    call.encoder->launch(few_wgrad_mma<T, MT>, static_cast<unsigned>(state.blocks), kThreads,
                         shared_bytes(p), p, dy.as<const T>(), x.as<const T>(), partial);
  };
  const auto with = [&]<class T>() {
    products_of(p.b.out) == 1 ? launch.template operator()<T, 1>()
                              : launch.template operator()<T, 2>();
  };
  dw.dtype() == DType::f16 ? with.template operator()<__half>()
                           : with.template operator()<__nv_bfloat16>();
  add_parts(*call.encoder, state.blocks, partial, dw);
}

}  // namespace
}  // namespace few

Kernel conv2d_wgrad_few_channels_mma_kernel() {
  return timed_kernel<few::supports, few::prepare, few::run>("few_channels_mma");
}

}  // namespace mica
