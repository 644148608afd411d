// Convolution of few channels of f32, as in a network's first layer.
#include <algorithm>

#include "mica/op/choices.h"
#include "mica/ops/conv2d/cuda_few_channels.cuh"
#include "mica/ops/conv2d/cuda_kernels.h"
#include "mica/ops/device_table.h"
#include "mica/runtime/cuda/encoder.h"

namespace mica {
namespace few {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostWidth = 256;

/// Which neighbours of y a thread may store as one: pixels of a row, channels, or none.
enum class Stores { pixels, channels, single };

__device__ void store_tile(const Bands& b, Stores stores, const float (&sum)[kEach][kEach],
                           int channel, int row, int col, float* image) {
  float* at = image + channel * b.y[1] + row * b.y[2] + col * b.y[3];
  cuda::Vec<float, kEach> v;
  if (stores == Stores::pixels) {
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (channel + j >= b.out) break;
#pragma unroll
      for (int i = 0; i < kEach; ++i) v.v[i] = sum[i][j];
      cuda::store_vec<kEach>(at + j * b.y[1], v);
    }
  } else if (stores == Stores::channels) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (col + i >= b.ow) break;
#pragma unroll
      for (int j = 0; j < kEach; ++j) v.v[j] = sum[i][j];
      cuda::store_vec<kEach>(at + i * b.y[3], v);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kEach; ++i)
#pragma unroll
      for (int j = 0; j < kEach; ++j)
        if (col + i < b.ow && channel + j < b.out) at[i * b.y[3] + j * b.y[1]] = sum[i][j];
  }
}

/// One block per band. Shared memory: the band of x, the weight as (taps, channels of y), the bias.
template <int K>
__global__ void __launch_bounds__(kThreads)
    few_forward(Bands b, Stores stores, const float* x, const float* weight, const float* bias,
                int64_t bias_stride, float* y) {
  float* xs = few_shared;
  float* ws = xs + b.channels * b.x_rows * b.pitch;
  const int padded = b.groups * kEach;
  const int taps = b.channels * K * K;
  float* biases = ws + taps * padded;
  const auto thread = static_cast<int>(threadIdx.x);
  const auto count = static_cast<unsigned>(b.count);
  const int64_t n = blockIdx.x / count;
  const int first = static_cast<int>(blockIdx.x % count) * b.rows;
  load_x(b, x + n * b.x[0], first, xs);
  for (int i = thread; i < taps * padded; i += kThreads) {
    const auto tap = static_cast<int>(b.by_out.quotient(static_cast<uint32_t>(i)));
    const int o = i - tap * padded;
    const int64_t at = o * b.weight[0] + tap / (K * K) * b.weight[1] + tap / K % K * b.weight[2] +
                       tap % K * b.weight[3];
    ws[i] = o < b.out ? weight[at] : 0.0F;
  }
  for (int o = thread; o < padded; o += kThreads)
    biases[o] = bias && o < b.out ? bias[o * bias_stride] : 0.0F;
  __syncthreads();

  for (int item = thread; item < b.groups * b.rows * b.quads; item += kThreads) {
    const auto line = static_cast<int>(b.by_quads.quotient(static_cast<uint32_t>(item)));
    const auto group = static_cast<int>(b.by_rows.quotient(static_cast<uint32_t>(line)));
    const int col = (item - line * b.quads) * kEach;
    const int row = line - group * b.rows;
    if (first + row >= b.oh) continue;
    float sum[kEach][kEach];  // pixel, channel
#pragma unroll
    for (int j = 0; j < kEach; ++j)
#pragma unroll
      for (int i = 0; i < kEach; ++i) sum[i][j] = biases[group * kEach + j];
    for (int c = 0; c < b.channels; ++c) {
#pragma unroll
      for (int u = 0; u < K; ++u) {
        float v[2 * kEach];
        const float* from = xs + (c * b.x_rows + row + u) * b.pitch + col;
        load_four(from, v);
        load_four(from + kEach, v + kEach);
#pragma unroll
        for (int k = 0; k < K; ++k) {
          float w[kEach];
          load_four(ws + ((c * K + u) * K + k) * padded + group * kEach, w);
#pragma unroll
          for (int i = 0; i < kEach; ++i)
#pragma unroll
            for (int j = 0; j < kEach; ++j) sum[i][j] += v[i + k] * w[j];
        }
      }
    }
    store_tile(b, stores, sum, group * kEach, first + row, col, y + n * b.y[0]);
  }
}

Bands forward_bands(const Conv2dGeometry& g) {
  const int64_t row = cuda::ceil_div<int64_t>(g.ow, kEach) * cuda::ceil_div<int64_t>(g.o, kEach);
  return bands_of(g, kThreads / row);
}

size_t forward_shared(const Bands& b, int64_t kernel) {
  const auto padded = static_cast<size_t>(b.groups) * kEach;
  const auto taps = static_cast<size_t>(b.channels * kernel * kernel);
  return sizeof(float) * (static_cast<size_t>(b.x_size()) + (taps + 1) * padded);
}

}  // namespace

Bands bands_of(const Conv2dGeometry& g, int64_t most_rows) {
  Bands b;
  const auto as_int = [](int64_t v) { return static_cast<int>(v); };
  b.channels = as_int(g.c);
  b.h = as_int(g.h);
  b.w = as_int(g.w);
  b.out = as_int(g.o);
  b.oh = as_int(g.oh);
  b.ow = as_int(g.ow);
  b.pad_h = as_int(g.padding.h);
  b.pad_w = as_int(g.padding.w);
  b.count = as_int(cuda::ceil_div<int64_t>(g.oh, std::max<int64_t>(most_rows, 1)));
  b.rows = cuda::ceil_div(b.oh, b.count);
  b.count = cuda::ceil_div(b.oh, b.rows);
  b.quads = cuda::ceil_div(b.ow, kEach);
  b.groups = cuda::ceil_div(b.out, kEach);
  b.x_rows = b.rows + as_int(g.kh) - 1;
  b.pitch = (b.quads + 1) * kEach;  // a thread reads four pixels more than it computes
  const auto divider = [](int d) { return cuda::Divider(static_cast<uint32_t>(d)); };
  b.by_pitch = divider(b.pitch);
  b.by_x_rows = divider(b.x_rows);
  b.by_quads = divider(b.quads);
  b.by_rows = divider(b.rows);
  b.by_out = divider(b.groups * kEach);
  return b;
}

std::string refusal(const Conv2dGeometry& g, const TensorSpec& out) {
  const DeviceTable::FewChannels& limits = device_table(out.device).few_channels;
  if (out.dtype == DType::f64) return "f64 is left to the direct kernel";
  if (g.n == 0 || g.o == 0 || g.c == 0) return "a tensor is empty";
  if (g.c > limits.most_in || g.groups > 1) return "too many channels, or groups";
  if (g.kh != g.kw || (g.kh != 3 && g.kh != 5)) return "the window is neither 3 by 3 nor 5 by 5";
  if (g.stride != Size2(1) || g.dilation != Size2(1)) return "strided or dilated";
  if (g.o > limits.most_out || g.pixels() > limits.most_pixels || g.ow > kMostWidth)
    return "large enough for the library";
  if (forward_shared(forward_bands(g), g.kh) > kMostShared) return "a band is too large";
  if (g.n > (int64_t{1} << 24)) return "too many images";
  return {};
}

namespace {

Support supports(const Conv2dParams& params, const Specs& specs) {
  if (specs.out[0].dtype != DType::f32) return Support::no("computes f32 only");
  const auto reason = refusal(
      conv2d_geometry("conv2d", params, specs.in[0].shape, specs.in[1].shape), specs.out[0]);
  return reason.empty() ? Support::yes() : Support::no(reason);
}

void run(const Conv2dParams& params, const Call& call) {
  const Arg& x = call.in[0];
  const Arg& weight = call.in[1];
  const Arg& bias = call.in[2];
  const Arg& y = call.out[0];
  const auto g = conv2d_geometry("conv2d", params, x.shape(), weight.shape());
  Bands b = forward_bands(g);
  set_strides(b, x, weight, y);
  const Stores stores = fours_along(3, y)   ? Stores::pixels
                        : fours_along(1, y) ? Stores::channels
                                            : Stores::single;
  call.encoder->launch(g.kh == 3 ? few_forward<3> : few_forward<5>,
                       static_cast<unsigned>(g.n * b.count), kThreads, forward_shared(b, g.kh), b,
                       stores, x.as<const float>(), weight.as<const float>(),
                       bias.defined() ? bias.as<const float>() : nullptr,
                       bias.defined() ? bias.strides()[0] : 0, y.as<float>());
}

}  // namespace
}  // namespace few

Kernel conv2d_few_channels_kernel() {
  return timed_kernel<few::supports, few::run>("few_channels");
}

}  // namespace mica
