#include "mica/ops/conv/conv_transpose.h"

#include "mica/op/autocast.h"
#include "mica/ops/conv/functions.h"
#include "mica/ops/conv/shape.h"
#include "mica/ops/conv2d/conv2d.h"
#include "mica/ops/conv3d/conv3d.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/view/leading_axis.h"

namespace mica {
namespace {

// Checks the call and gives the result's shape.
template <class Size>
Shape shape_of(const char* op, const Tensor& x, const Tensor& weight, const Tensor& bias,
               const ConvTransposeOptions<Size>& o) {
  const Dims padding = dims_of(o.padding);
  const Shape shape =
      conv_transpose_shape(op, x.shape(), weight.shape(),
                           {dims_of(o.stride), padding, padding, dims_of(o.dilation), o.groups},
                           dims_of(o.output_padding));
  check_conv_operands(op, x.spec(), weight.spec(), bias.defined() ? bias.spec() : TensorSpec(),
                      shape[1]);
  return shape;
}

// y (N, C, …) plus bias (C).
Tensor add_bias(const Tensor& y, const Tensor& bias) {
  if (!bias.defined()) return y;
  Shape shape = Dims::filled(y.rank() - 1, 1);
  shape[0] = bias.size(0);
  return add(y, reshape(bias, shape));
}

}  // namespace

Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions<int64_t>& o) {
  if (x.rank() == 2)
    return with_leading_axis(x, 3,
                             [&](const Tensor& v) { return conv_transpose1d(v, weight, bias, o); });
  const ComputedIn precision(Precision::low);
  const Shape shape = shape_of("conv_transpose1d", x, weight, bias, o);
  const Tensor row = reshape(x, {x.size(0), x.size(1), 1, x.size(2)});
  const Tensor kernel = reshape(weight, {weight.size(0), weight.size(1), 1, weight.size(2)});
  const Tensor y = conv2d_dgrad(row, kernel,
                                {{.stride = {1, o.stride},
                                  .padding = {0, o.padding},
                                  .dilation = {1, o.dilation},
                                  .groups = o.groups},
                                 {shape[0], shape[1], 1, shape[2]}});
  return add_bias(reshape(y, shape), bias);
}

Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions<Size2>& o) {
  if (x.rank() == 3)
    return with_leading_axis(x, 4,
                             [&](const Tensor& v) { return conv_transpose2d(v, weight, bias, o); });
  const ComputedIn precision(Precision::low);
  const Shape shape = shape_of("conv_transpose2d", x, weight, bias, o);
  return add_bias(conv2d_dgrad(x, weight, {{o.stride, o.padding, o.dilation, o.groups}, shape}),
                  bias);
}

Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions<Size3>& o) {
  if (x.rank() == 4)
    return with_leading_axis(x, 5,
                             [&](const Tensor& v) { return conv_transpose3d(v, weight, bias, o); });
  const ComputedIn precision(Precision::low);
  const Shape shape = shape_of("conv_transpose3d", x, weight, bias, o);
  return add_bias(conv3d_dgrad(x, weight, {{o.stride, o.padding, o.dilation, o.groups}, shape}),
                  bias);
}

Functions conv_transpose_functions() {
  return {conv_transpose_function<int64_t, conv_transpose1d>(
              "conv_transpose1d",
              "What the gradient of conv1d does: input (N, C, L) with weight (C, O / groups, k), "
              "plus bias (O), gives (N, O, L'), L' = (L - 1) stride - 2 padding + dilation (k - 1) "
              "+ 1 + output_padding."),
          conv_transpose_function<Size2, conv_transpose2d>(
              "conv_transpose2d",
              "What the gradient of conv2d does: input (N, C, H, W) with weight (C, O / groups, "
              "kH, kW), plus bias (O), gives (N, O, H', W'), H' = (H - 1) stride - 2 padding + "
              "dilation (kH - 1) + 1 + output_padding."),
          conv_transpose_function<Size3, conv_transpose3d>(
              "conv_transpose3d",
              "What the gradient of conv3d does: input (N, C, D, H, W) with weight (C, O / groups, "
              "kD, kH, kW), plus bias (O), gives (N, O, D', H', W'), H' = (H - 1) stride - 2 "
              "padding + dilation (kH - 1) + 1 + output_padding.")};
}

}  // namespace mica
