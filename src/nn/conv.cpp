#include "mica/nn/conv.h"

#include <algorithm>

#include "mica/core/check.h"
#include "mica/nn/init.h"
#include "mica/nn/sizes.h"
#include "mica/ops/conv/conv1d.h"
#include "mica/ops/conv/conv_transpose.h"
#include "mica/ops/conv2d/conv2d.h"
#include "mica/ops/conv3d/conv3d.h"

namespace mica::nn {
namespace {

template <class Options>
constexpr bool kTransposed = requires(const Options& o) { o.output_padding; };

/// What is put around x before a convolution without padding.
template <class Size>
PadParams padding_of(const ConvLayerOptions<Size>& o) {
  PadParams params = {.before = dims_of(o.padding.before),
                      .after = dims_of(o.padding.after),
                      .mode = o.padding_mode};
  if (!o.padding.same_size) return params;
  const Dims kernel = dims_of(o.kernel);
  const Dims dilation = dims_of(o.dilation);
  for (int i = 0; i < kernel.rank(); ++i) {
    const int64_t total = dilation[i] * (kernel[i] - 1);
    params.before[i] = total / 2;
    params.after[i] = total - total / 2;
  }
  return params;
}

template <class Size>
Tensor convolve(const Tensor& x, const Tensor& w, const Tensor& b,
                const ConvLayerOptions<Size>& o) {
  if (o.padding_mode != PadMode::constant) {
    ConvLayerOptions<Size> inside = o;
    inside.padding_mode = PadMode::constant;
    inside.padding = 0;
    return convolve(pad(x, padding_of(o)), w, b, inside);
  }
  const ConvOptions<Size> options = {o.stride, o.padding, o.dilation, o.groups};
  if constexpr (std::same_as<Size, int64_t>) return conv1d(x, w, b, options);
  if constexpr (std::same_as<Size, Size2>) return conv2d(x, w, b, options);
  if constexpr (std::same_as<Size, Size3>) return conv3d(x, w, b, options);
}

template <class Size>
Tensor convolve(const Tensor& x, const Tensor& w, const Tensor& b,
                const ConvTransposeLayerOptions<Size>& o) {
  const ConvTransposeOptions<Size> options = {o.stride, o.padding, o.output_padding, o.dilation,
                                              o.groups};
  if constexpr (std::same_as<Size, int64_t>) return conv_transpose1d(x, w, b, options);
  if constexpr (std::same_as<Size, Size2>) return conv_transpose2d(x, w, b, options);
  if constexpr (std::same_as<Size, Size3>) return conv_transpose3d(x, w, b, options);
}

template <class Options>
std::string type_of(const Options& o) {
  return fmt::format("Conv{}{}d", kTransposed<Options> ? "Transpose" : "",
                     dims_of(o.kernel).rank());
}

}  // namespace

template <class Options>
ConvImpl<Options>::ConvImpl(const Options& o) : options(o) {
  const Dims kernel = dims_of(o.kernel);
  check(o.in >= 1 && o.out >= 1 && std::ranges::all_of(kernel, [](int64_t k) { return k >= 1; }),
        "nn::{}: in, out and kernel must be at least 1, got {}, {} and {}", type_of(o), o.in, o.out,
        kernel);
  check(o.groups >= 1 && o.in % o.groups == 0 && o.out % o.groups == 0,
        "nn::{}: groups must divide in = {} and out = {}, got {}", type_of(o), o.in, o.out,
        o.groups);
  Shape shape =
      kTransposed<Options> ? Shape{o.in, o.out / o.groups} : Shape{o.out, o.in / o.groups};
  for (const int64_t k : kernel) shape.push_back(k);
  const int64_t fan_in = init::fans(shape).in;
  weight = parameter("weight", shape, init::fan_in_uniform(fan_in));
  if (o.bias) bias = parameter("bias", {o.out}, init::fan_in_uniform(fan_in));
}

template <class Options>
Tensor ConvImpl<Options>::forward(const Tensor& x) {
  return convolve(x, weight, bias, options);
}

template <class Options>
std::string ConvImpl<Options>::describe() const {
  return nn::describe(type_of(options), options);
}

template struct ConvImpl<Conv1dOptions>;
template struct ConvImpl<Conv2dOptions>;
template struct ConvImpl<Conv3dOptions>;
template struct ConvImpl<ConvTranspose1dOptions>;
template struct ConvImpl<ConvTranspose2dOptions>;
template struct ConvImpl<ConvTranspose3dOptions>;

}  // namespace mica::nn
