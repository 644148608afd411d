// Direct convolution and its input gradient.
#include "mica/op/choices.h"
#include "mica/ops/conv2d/cuda_gather.cuh"
#include "mica/ops/conv2d/cuda_kernels.h"
#include "mica/runtime/cuda/encoder.h"

namespace mica {
namespace direct {
namespace {

int as_int(int64_t v) { return static_cast<int>(v); }

void order_taps(GatherPlan& p, const Conv2dGeometry& g, int64_t channels) {
  p.depth = as_int(channels * g.kh * g.kw);
  p.channels_innermost = p.source[1] < p.source[3];
  const int64_t inner = p.channels_innermost ? channels : g.kw;
  const int64_t middle = p.channels_innermost ? g.kw : g.kh;
  p.by_inner = cuda::Divider(static_cast<uint32_t>(inner > 0 ? inner : 1));
  p.by_middle = cuda::Divider(static_cast<uint32_t>(middle));
}

template <class T, int TM, int TN>
__global__ void __launch_bounds__(kTileThreads<TM, TN>)
    gather_product(GatherPlan p, const T* source, const T* weight, const T* bias,
                   int64_t bias_stride, T* destination) {
  using C = cuda::Compute<T>;
  constexpr int kThreads = kTileThreads<TM, TN>;
  __shared__ Tiles<C, TM, TN> tiles;
  __shared__ Pixel pixels[TM];
  __shared__ Tap taps[2][kDepth];  // of this step and the next
  const auto thread = static_cast<int>(threadIdx.x);
  const int64_t row_tiles = cuda::ceil_div<int64_t>(p.pixels, TM);
  const int64_t col_tiles = cuda::ceil_div<int64_t>(p.channels, TN);
  // Threads are neighbours along what is contiguous in memory.
  const bool source_along_taps = p.channels_innermost;
  const bool weight_along_taps = p.weight_channel > p.weight_tap[p.channels_innermost ? 0 : 2];
  for (int64_t tile = blockIdx.x; tile < p.groups * row_tiles * col_tiles; tile += gridDim.x) {
    const int64_t channel0 = tile % col_tiles * TN;
    const int64_t pixel0 = tile / col_tiles % row_tiles * TM;
    const int64_t group = tile / col_tiles / row_tiles;
    __syncthreads();  // the tile before is written
    if (thread < TM) pixels[thread] = pixel_at(p, pixel0 + thread, group);
    if (thread < kDepth) taps[0][thread] = tap_at(p, thread, group);
    C sum[kEach][kEach] = {};
    int now = 0;
    for (int k0 = 0; k0 < p.depth; k0 += kDepth, now ^= 1) {
      __syncthreads();
      for (int i = thread; i < TM * kDepth; i += kThreads) {
        const int r = tile_row<TM>(i, source_along_taps);
        const int k = tile_depth<TM>(i, source_along_taps);
        tiles.a[k][r] = gather(p, pixels[r], taps[now][k], source);
      }
      for (int i = thread; i < TN * kDepth; i += kThreads) {
        const int c = tile_row<TN>(i, weight_along_taps);
        const int k = tile_depth<TN>(i, weight_along_taps);
        const bool inside = k0 + k < p.depth && channel0 + c < p.channels;
        tiles.b[k][c] =
            inside
                ? cuda::to_compute(weight[taps[now][k].weight + (channel0 + c) * p.weight_channel])
                : C(0);
      }
      if (thread < kDepth) taps[now ^ 1][thread] = tap_at(p, k0 + kDepth + thread, group);
      __syncthreads();
      multiply(tiles, sum);
    }
    __syncthreads();  // the pixels are there also when no step was made
    const int row = thread_row<TM>();
    const int col = thread_col<TM>();
    for (int j = 0; j < kEach; ++j) {
      const int64_t channel = channel0 + col + j;
      if (channel >= p.channels) break;
      const C add =
          bias ? cuda::to_compute(bias[(group * p.channels + channel) * bias_stride]) : C(0);
      for (int i = 0; i < kEach; ++i) {
        const int64_t at = pixels[row + i].destination;
        if (at >= 0)
          destination[at + channel * p.destination[1]] = cuda::convert<T>(sum[i][j] + add);
      }
    }
  }
}

void launch_gather(const GatherPlan& p, const Call& call, const Arg& bias) {
  if (p.pixels == 0 || p.channels == 0) return;
  const int sms = call.encoder->multiprocessors();
  cuda::cuda_switch_float(call.out[0].dtype(), "conv2d", [&]<class T>() {
    switch_tiles(p.pixels, p.channels, p.groups, sms, [&]<int TM, int TN>() {
      const int64_t tiles = p.groups * cuda::ceil_div<int64_t>(p.pixels, TM) *
                            cuda::ceil_div<int64_t>(p.channels, TN);
      const bool biased = bias.spec && bias.defined();
      call.encoder->launch(gather_product<T, TM, TN>, cuda::grid_for(tiles, 1, sms),
                           kTileThreads<TM, TN>, 0, p, call.in[0].as<const T>(),
                           call.in[1].as<const T>(), biased ? bias.as<const T>() : nullptr,
                           biased ? bias.strides()[0] : 0, call.out[0].as<T>());
    });
  });
}

Support supports(const Conv2dParams& params, const Specs& specs) {
  const auto reason =
      too_large(conv2d_geometry("conv2d", params, specs.in[0].shape, specs.in[1].shape));
  return reason.empty() ? Support::yes() : Support::no(reason);
}

void run(const Conv2dParams& params, const Call& call) {
  const auto g = conv2d_geometry("conv2d", params, call.in[0].shape(), call.in[1].shape());
  const GatherPlan p =
      plan_forward(g, call.in[0].strides(), call.in[1].strides(), call.out[0].strides());
  launch_gather(p, call, call.in[2]);
}

Support supports_dgrad(const Conv2dGradParams& params, const Specs& specs) {
  const auto reason =
      too_large(conv2d_geometry("conv2d_dgrad", params.conv, params.shape, specs.in[1].shape));
  return reason.empty() ? Support::yes() : Support::no(reason);
}

void run_dgrad(const Conv2dGradParams& params, const Call& call) {
  const auto g = conv2d_geometry("conv2d_dgrad", params.conv, params.shape, call.in[1].shape());
  const GatherPlan p =
      plan_dgrad(g, call.in[0].strides(), call.in[1].strides(), call.out[0].strides());
  launch_gather(p, call, {});
}

}  // namespace

GatherPlan plan_forward(const Conv2dGeometry& g, const Strides& x, const Strides& weight,
                        const Strides& y) {
  GatherPlan p;
  p.pixels = g.n * g.pixels();
  p.image_pixels = g.pixels();
  p.row_pixels = g.ow;
  p.groups = g.groups;
  p.channels = g.group_out();
  p.h = {as_int(g.h), as_int(g.stride.h), -as_int(g.padding.h), as_int(g.dilation.h), {}};
  p.w = {as_int(g.w), as_int(g.stride.w), -as_int(g.padding.w), as_int(g.dilation.w), {}};
  for (int i = 0; i < 4; ++i) {
    p.source[i] = x[i];
    p.destination[i] = y[i];
  }
  p.source_group = g.group_in() * x[1];
  p.destination_group = g.group_out() * y[1];
  p.weight_tap[0] = weight[1];
  p.weight_tap[1] = weight[2];
  p.weight_tap[2] = weight[3];
  p.weight_channel = weight[0];
  p.weight_group = g.group_out() * weight[0];
  order_taps(p, g, g.group_in());
  return p;
}

GatherPlan plan_dgrad(const Conv2dGeometry& g, const Strides& dy, const Strides& weight,
                      const Strides& dx) {
  GatherPlan p;
  p.pixels = g.n * g.h * g.w;
  p.image_pixels = g.h * g.w;
  p.row_pixels = g.w;
  p.groups = g.groups;
  p.channels = g.group_in();
  p.h = {as_int(g.oh), 1, as_int(g.padding.h), -as_int(g.dilation.h),
         cuda::Divider(static_cast<uint32_t>(g.stride.h))};
  p.w = {as_int(g.ow), 1, as_int(g.padding.w), -as_int(g.dilation.w),
         cuda::Divider(static_cast<uint32_t>(g.stride.w))};
  for (int i = 0; i < 4; ++i) {
    p.source[i] = dy[i];
    p.destination[i] = dx[i];
  }
  p.source_group = g.group_out() * dy[1];
  p.destination_group = g.group_in() * dx[1];
  p.weight_tap[0] = weight[0];
  p.weight_tap[1] = weight[2];
  p.weight_tap[2] = weight[3];
  p.weight_channel = weight[1];
  p.weight_group = g.group_out() * weight[0];
  order_taps(p, g, g.group_out());
  return p;
}

std::string too_large(const Conv2dGeometry& g) {
  constexpr int64_t kMost = int64_t{1} << 28;
  const bool fits = g.h + 2 * g.padding.h < kMost && g.w + 2 * g.padding.w < kMost &&
                    g.c * g.kh * g.kw < kMost && g.o * g.kh * g.kw < kMost && g.stride.h < kMost &&
                    g.stride.w < kMost;
  return fits ? "" : "an axis or a window has 2^28 elements or more";
}

}  // namespace direct

Kernel conv2d_direct_kernel() { return timed_kernel<direct::supports, direct::run>("direct"); }

Kernel conv2d_dgrad_direct_kernel() {
  return timed_kernel<direct::supports_dgrad, direct::run_dgrad>("direct");
}

}  // namespace mica
