#include "mica/ops/conv2d/cpu_onednn.h"

#include "mica/op/settings.h"
#include "mica/ops/conv/cpu_widened.h"
#include "mica/ops/conv/shape.h"
#include "mica/ops/conv2d/geometry.h"

namespace mica {
namespace {

/// Whether both are images of one pixel, which have no format.
bool have_no_format(const TensorSpec& a, const TensorSpec& b) {
  const auto is_pixel = [](const TensorSpec& s) {
    return s.shape[2] * s.shape[3] == 1 && s.is_contiguous() && s.is_channels_last_dense();
  };
  return is_pixel(a) && is_pixel(b);
}

bool in_channels_last(const Specs& specs) {
  return works_channels_last(specs.out[0], specs.in[0]) ||
         have_no_format(specs.out[0], specs.in[0]);
}
bool gradient_in_channels_last(const Specs& specs) {
  return wgrad_channels_last(specs) || have_no_format(specs.in[0], specs.in[1]);
}

bool is_column(const Conv2dGeometry& g) {
  return g.w == 1 && g.kw == 1 && g.ow == 1 && g.padding.w == 0 && g.h > 1;
}

using onednn::Convolution;
using onednn::Direction;
using onednn::State;

/// Sizes and windows with their axes exchanged, which is the same in memory where an image is one
/// pixel wide. The library's kernels go along rows: 256 channels of 512x1 to 512, 5x1, take 9 ms so
/// and 2.7 ms as 1x512.
Conv2dGeometry along_rows(Conv2dGeometry g) {
  if (!is_column(g)) return g;
  std::swap(g.h, g.w);
  std::swap(g.kh, g.kw);
  std::swap(g.oh, g.ow);
  for (Size2* size : {&g.stride, &g.padding, &g.dilation}) std::swap(size->h, size->w);
  return g;
}

Convolution describe(const Conv2dGeometry& given, const Specs& specs, bool channels_last,
                     bool bias = false) {
  const Conv2dGeometry g = along_rows(given);
  Convolution c;
  c.type = onednn::type_of(specs);
  c.x = {g.n, g.c, g.h, g.w};
  c.weight = {g.group_out(), g.group_in(), g.kh, g.kw};
  if (g.groups > 1) c.weight.insert(c.weight.begin(), g.groups);
  c.y = {g.n, g.o, g.oh, g.ow};
  c.stride = {g.stride.h, g.stride.w};
  c.padding = {g.padding.h, g.padding.w};
  c.dilation = {g.dilation.h - 1, g.dilation.w - 1};  // oneDNN's 0 is none
  c.channels_last = channels_last;
  c.bias = bias;
  return c;
}

/// Where a window lies outside the image for the most part, oneDNN alone leaves that out. With one
/// thread on a Zen 4 core, 128 images of one pixel, 512 channels, 3x3, forward and the gradients of
/// image and weight: 3.6, 2.3 and 10 ms where direct takes 26, 28 and 86 ms; of 2x2, 256 to 512
/// channels, stride 2: 11.6, 9.0 and 12 ms where it takes 12.5, 13 and 29 ms.
bool is_mostly_outside(const Conv2dGeometry& g) {
  return g.oh * g.ow == 1 && g.h * g.w <= 4 && g.groups == 1 && g.c >= 32 && g.o >= 32;
}

// Measured with one thread on a Zen 4 core, GFLOP/s of oneDNN, im2col and direct, forward: LeNet's
// layers 43, 56, 69 and 64, 77, 93; 64 channels 3x3 on 56x56 80, 89, 100; 256 channels 3x3 on 14x14
// 93, 87, 106. Gradients of the input are alike; those of the weight 23, 32, 70; 63, 62, 89; 57,
// 78, 93; 93, 87, 69. 1x1 (oneDNN, im2col) 113, 97, with stride 2 (dgrad) 94, 74.
Support rate(const Conv2dGeometry& g, const Specs& specs, bool channels_last,
             bool weight_gradient = false) {
  if (is_mostly_outside(g)) return Support::yes();
  // Rows it brings into another order and back: f32 is as fast then. Gradients of weights of large
  // windows are faster all the same: 256 channels of 2x2, 3x3, 8.4 ms and 18.9 ms.
  if (specs.out[0].dtype == DType::bf16)
    return channels_last || (weight_gradient && g.window() >= 1024) ? Support::yes()
                                                                    : Support::possible();
  if (!channels_last && g.groups > 1 && g.group_in() == 1) return Support::possible();  // depthwise
  const bool im2col_is_faster =
      !channels_last && g.kh * g.kw > 1 && g.window() < 1024 && g.n >= num_threads();
  return im2col_is_faster || prefers_direct(g, weight_gradient) ? Support::possible()
                                                                : Support::yes();
}

// In channels_last, with one thread on a Zen 5 core, µs of oneDNN and direct for one image: 3 to 16
// channels of 160x160, 3x3, stride 2, 34 and 61; 16 to 16 of 80x80 125 and 235; 64 to 64 of 40x40
// 444 and 910; 256 to 256 of 14x14 989 and 2108; of 64 images, 6 to 16 channels of 14x14, 5x5, 289
// and 475. From one channel, which has no format, 721 and 327.
Support rate_forward(const Conv2dGeometry& g, const Specs& specs, bool channels_last) {
  return channels_last && g.c > 1 ? Support::yes() : rate(g, specs, channels_last);
}

// The first input in the output's format, the others row-major.
Support wanted_layouts(Support support, const Specs& specs) {
  if (in_channels_last(specs)) return std::move(support).with_channels_last(1).with_contiguous(6);
  if (specs.out[0].is_contiguous()) return std::move(support).with_contiguous(7);
  return Support::no("writes row-major and channels_last results only");
}

Conv2dGeometry forward_geometry(const Conv2dParams& params, const Specs& specs) {
  return conv2d_geometry("conv2d", params, specs.in[0].shape, specs.in[1].shape);
}
std::shared_ptr<State> prepare_forward(const Conv2dParams& params, const Specs& specs) {
  return prepare(conv2d_onednn_problem(params, specs), Direction::forward);
}

void run(const Conv2dParams&, const State& s, const Call& call) { run_forward(s, call); }
void keep(const Conv2dParams&, const State& s, const Call& call) { keep_weight(s, call); }

Conv2dGeometry dgrad_geometry(const Conv2dGradParams& params, const Specs& specs) {
  return conv2d_geometry("conv2d_dgrad", params.conv, params.shape, specs.in[1].shape);
}

Support supports_dgrad(const Conv2dGradParams& params, const Specs& specs) {
  const Conv2dGeometry g = dgrad_geometry(params, specs);
  const bool channels_last = in_channels_last(specs);
  if (const auto why = onednn::refusal(specs)) return Support::no(*why);
  // For few channels oneDNN's channels_last kernel is the slower one: 22 GFLOP/s against 77 for the
  // 7x7 convolution of 3 channels, 72 against 82 for LeNet's second layer.
  // In bf16 a Zen 5 core takes 1.30 ms for 24 channels that take 0.79 ms in f32, and 0.28 for 32.
  const bool uneven = specs.out[0].dtype == DType::bf16 && g.c % 32 != 0;
  const bool few = channels_last && g.groups == 1 && (g.c < 32 || uneven) && g.n >= num_threads();
  return wanted_layouts(few ? Support::possible() : rate(g, specs, channels_last), specs);
}

std::shared_ptr<State> prepare_dgrad(const Conv2dGradParams& params, const Specs& specs) {
  return prepare(describe(dgrad_geometry(params, specs), specs, in_channels_last(specs)),
                 Direction::dgrad);
}

void run_dgrad(const Conv2dGradParams&, const State& s, const Call& call) {
  onednn::run_dgrad(s, call);
}
void keep_dgrad(const Conv2dGradParams&, const State& s, const Call& call) { keep_weight(s, call); }

Conv2dGeometry wgrad_geometry(const Conv2dGradParams& params, const Specs& specs) {
  return conv2d_geometry("conv2d_wgrad", params.conv, specs.in[1].shape, params.shape);
}

Support supports_wgrad(const Conv2dGradParams& params, const Specs& specs) {
  const Conv2dGeometry g = wgrad_geometry(params, specs);
  const bool channels_last = gradient_in_channels_last(specs);
  if (const auto why = onednn::refusal(specs)) return Support::no(*why);
  if (!specs.out[0].is_contiguous()) return Support::no("writes a row-major gradient only");
  Support support = rate(g, specs, channels_last, true);
  return channels_last ? std::move(support).with_channels_last(3)
                       : std::move(support).with_contiguous(3);
}

std::shared_ptr<State> prepare_wgrad(const Conv2dGradParams& params, const Specs& specs) {
  return prepare(describe(wgrad_geometry(params, specs), specs, gradient_in_channels_last(specs)),
                 Direction::wgrad);
}

void run_wgrad(const Conv2dGradParams&, const State& s, const Call& call) {
  onednn::run_wgrad(s, call);
}

Kernel wgrad_kernel() { return kernel<supports_wgrad, prepare_wgrad, run_wgrad>("onednn"); }

/// Gradients of depthwise weights larger than 3x3, which are slower in bf16: on a Zen 4 core, four
/// images of 960 channels of 2x2, 5x5, take 4.4 ms and in f32 1.1 ms, 120 of 8x8 0.83 and 0.29, 768
/// of 7x7, 7x7, 6.5 and 2.8.
bool is_faster_in_f32(const void* params, const Specs& specs) {
  const auto& p = *static_cast<const Conv2dGradParams*>(params);
  return specs.out[0].dtype == DType::bf16 && p.conv.groups > 1 && p.shape[1] == 1 &&
         p.shape[2] * p.shape[3] > 9;
}

}  // namespace

std::optional<onednn::memory::desc> conv2d_onednn_operand(const Conv2dParams& params,
                                                          const Specs& specs,
                                                          const TensorSpec& operand) {
  const Convolution conv = conv2d_onednn_problem(params, specs);
  TensorSpec seen = operand;
  if (operand.rank() == 4 && is_column(forward_geometry(params, specs))) {
    std::swap(seen.shape[2], seen.shape[3]);
    std::swap(seen.strides[2], seen.strides[3]);
  }
  return beside_y(conv, seen);
}

Convolution conv2d_onednn_problem(const Conv2dParams& params, const Specs& specs) {
  return describe(forward_geometry(params, specs), specs, in_channels_last(specs),
                  specs.in[2].defined);
}

Support supports_conv2d_onednn(const Conv2dParams& params, const Specs& specs) {
  if (const auto why = onednn::refusal(specs)) return Support::no(*why);
  const bool channels_last = in_channels_last(specs);
  return wanted_layouts(rate_forward(forward_geometry(params, specs), specs, channels_last), specs);
}

Kernel conv2d_onednn_kernel() {
  return kernel<supports_conv2d_onednn, prepare_forward, run, keep>("onednn");
}
Kernel conv2d_dgrad_onednn_kernel() {
  return kernel<supports_dgrad, prepare_dgrad, run_dgrad, keep_dgrad>("onednn");
}
Kernel conv2d_wgrad_onednn_kernel() {
  return partly_widened_kernel<wgrad_kernel, is_faster_in_f32>();
}

}  // namespace mica
