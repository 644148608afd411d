#include "mica/ops/conv/conv1d.h"

#include "mica/ops/conv/functions.h"
#include "mica/ops/conv/shape.h"
#include "mica/ops/conv2d/conv2d.h"
#include "mica/ops/view/leading_axis.h"

namespace mica {
namespace {

// (A, B, L) as (A, B, 1, L).
Tensor as_row(const Tensor& x) { return reshape(x, {x.size(0), x.size(1), 1, x.size(2)}); }

}  // namespace

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const ConvOptions<int64_t>& options) {
  if (x.rank() == 2)
    return with_leading_axis(x, 3,
                             [&](const Tensor& v) { return conv1d(v, weight, bias, options); });
  ConvWindows windows = conv_windows("conv1d", options, weight.shape());
  const Shape shape = conv_shape("conv1d", x.shape(), weight.shape(), windows);
  check_conv_operands("conv1d", x.spec(), weight.spec(),
                      bias.defined() ? bias.spec() : TensorSpec(), shape[1]);
  const Tensor padded = pad_unevenly(x, windows);
  const Tensor y = conv2d(as_row(padded), as_row(weight), bias,
                          {.stride = {1, options.stride},
                           .padding = {0, windows.before[0]},
                           .dilation = {1, options.dilation},
                           .groups = options.groups});
  return reshape(y, shape);
}

Functions conv1d_functions() {
  return {conv_function<int64_t, conv1d>(
      "conv1d",
      "Cross-correlation of input (N, C, L) with weight (O, C / groups, k), plus bias (O): (N, O, "
      "L'), L' = floor((L + 2 padding - dilation (k - 1) - 1) / stride) + 1. padding: a number, "
      "((before, after),), 'same' (for a stride of 1) or 'valid'.")};
}

}  // namespace mica
