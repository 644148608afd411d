#include "mica/ops/conv3d/conv3d.h"

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/conv/cpu_widened.h"
#include "mica/ops/conv/flops.h"
#include "mica/ops/conv/functions.h"
#include "mica/ops/conv/shape.h"
#include "mica/ops/conv3d/geometry.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/leading_axis.h"

namespace mica {
namespace {

void infer(const Conv3dParams& params, std::span<const TensorSpec> in, OutSpecs& out) {
  const Conv3dGeometry g = conv3d_geometry("conv3d", params, in[0].shape, in[1].shape);
  check_conv_operands("conv3d", in[0], in[1], in[2], g.o);
  out.add(g.y_shape(), in[0].dtype);
}

Tensors vjp(const Conv3dParams& params, const VjpArgs& args) {
  const Tensor& dy = args.grad[0];
  Tensors grads(3);
  if (args.needs(0)) grads[0] = conv3d_dgrad(dy, args.in[1], {params, args.in_specs[0].shape});
  if (args.needs(1)) grads[1] = conv3d_wgrad(dy, args.in[0], {params, args.in_specs[1].shape});
  if (args.needs(2)) grads[2] = sum(dy, {0, 2, 3, 4});
  return grads;
}

void check_dy(const char* op, const Conv3dGeometry& g, const TensorSpec& dy,
              const TensorSpec& other) {
  check_conv_operands(op, dy, other, {}, 0);
  check<ShapeError>(dy.shape == g.y_shape(), "{}: dy must have the convolution's shape {}, got {}",
                    op, g.y_shape(), dy.shape);
}

void infer_dgrad(const Conv3dGradParams& params, std::span<const TensorSpec> in, OutSpecs& out) {
  check_dy(out.op(), conv3d_geometry(out.op(), params.conv, params.shape, in[1].shape), in[0],
           in[1]);
  out.add(params.shape, in[0].dtype);
}

// The op is linear in both inputs.
Tensors vjp_dgrad(const Conv3dGradParams& params, const VjpArgs& args) {
  const Tensor& g = args.grad[0];
  Tensors grads(2);
  if (args.needs(0)) grads[0] = conv3d(g, args.in[1], {}, params.conv);
  if (args.needs(1)) grads[1] = conv3d_wgrad(args.in[0], g, {params.conv, args.in_specs[1].shape});
  return grads;
}

void infer_wgrad(const Conv3dGradParams& params, std::span<const TensorSpec> in, OutSpecs& out) {
  check_dy(out.op(), conv3d_geometry(out.op(), params.conv, in[1].shape, params.shape), in[0],
           in[1]);
  out.add(params.shape, in[0].dtype);
}

Tensors vjp_wgrad(const Conv3dGradParams& params, const VjpArgs& args) {
  const Tensor& g = args.grad[0];
  Tensors grads(2);
  if (args.needs(0)) grads[0] = conv3d(args.in[1], g, {}, params.conv);
  if (args.needs(1)) grads[1] = conv3d_dgrad(args.in[0], g, {params.conv, args.in_specs[1].shape});
  return grads;
}

}  // namespace

Conv3dGeometry conv3d_geometry(const char* op, const Conv3dParams& params, const Shape& x,
                               const Shape& weight) {
  const Dims padding = dims_of(params.padding);
  const Shape y = conv_shape(
      op, x, weight,
      {dims_of(params.stride), padding, padding, dims_of(params.dilation), params.groups});
  Conv3dGeometry g;
  g.n = x[0];
  g.c = x[1];
  g.o = weight[0];
  g.in = {x[2], x[3], x[4]};
  g.kernel = {weight[2], weight[3], weight[4]};
  g.out = {y[2], y[3], y[4]};
  g.stride = params.stride;
  g.padding = params.padding;
  g.dilation = params.dilation;
  g.groups = params.groups;
  return g;
}

const OpDef& conv3d_op() {
  static OpDef def = Op<Conv3dParams>("conv3d")
                         .inputs({"x", "weight", "bias?"})
                         .flops<conv_flops<Conv3dParams>>()
                         .precision(Precision::low)
                         .contraction({.channel_axis = 1})
                         .dtypes(kFloatDTypes)
                         .infer<infer>()
                         .vjp<vjp>({.in = {{0, {1}}, {1, {0}}}})
                         .cpu({conv3d_vol2col_kernel(), widened_kernel<conv3d_vol2col_kernel>(),
                               conv3d_reference_kernel()})
                         .build();
  return def;
}

const OpDef& conv3d_dgrad_op() {
  static OpDef def =
      Op<Conv3dGradParams>("conv3d_dgrad")
          .inputs({"dy", "weight"})
          .outputs({"dx"})
          .flops<conv_dgrad_flops<Conv3dGradParams>>()
          .dtypes(kFloatDTypes)
          .infer<infer_dgrad>()
          .vjp<vjp_dgrad>({.in = {{0, {1}}, {1, {0}}}})
          .cpu({conv3d_dgrad_vol2col_kernel(), widened_kernel<conv3d_dgrad_vol2col_kernel>(),
                conv3d_dgrad_reference_kernel()})
          .build();
  return def;
}

const OpDef& conv3d_wgrad_op() {
  static OpDef def =
      Op<Conv3dGradParams>("conv3d_wgrad")
          .inputs({"dy", "x"})
          .outputs({"dweight"})
          .formats({}, {Format::weight})
          .flops<conv_wgrad_flops<Conv3dGradParams>>()
          .dtypes(kFloatDTypes)
          .infer<infer_wgrad>()
          .vjp<vjp_wgrad>({.in = {{0, {1}}, {1, {0}}}})
          .cpu({conv3d_wgrad_vol2col_kernel(), widened_kernel<conv3d_wgrad_vol2col_kernel>(),
                conv3d_wgrad_reference_kernel()})
          .build();
  return def;
}

Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const ConvOptions<Size3>& options) {
  if (x.rank() == 4)
    return with_leading_axis(x, 5,
                             [&](const Tensor& v) { return conv3d(v, weight, bias, options); });
  const auto call = [&](const Tensor& input, Size3 padding) {
    const Conv3dParams params{options.stride, padding, options.dilation, options.groups};
    return dispatch(conv3d_op(), params, {input, weight, bias})[0];
  };
  const Padding<Size3>& p = options.padding;
  if (!p.same_size && p.before == p.after) return call(x, p.before);
  ConvWindows windows = conv_windows("conv3d", options, weight.shape());
  conv_shape("conv3d", x.shape(), weight.shape(), windows);
  const Tensor padded = pad_unevenly(x, windows);
  return call(padded, {windows.before[0], windows.before[1], windows.before[2]});
}

Tensor conv3d_dgrad(const Tensor& dy, const Tensor& weight, const Conv3dGradParams& params) {
  return dispatch(conv3d_dgrad_op(), params, {dy, weight})[0];
}

Tensor conv3d_wgrad(const Tensor& dy, const Tensor& x, const Conv3dGradParams& params) {
  return dispatch(conv3d_wgrad_op(), params, {dy, x})[0];
}

Functions conv3d_functions() {
  return {conv_function<Size3, conv3d>(
      "conv3d",
      "Cross-correlation of input (N, C, D, H, W) with weight (O, C / groups, kD, kH, kW), plus "
      "bias (O): (N, O, D', H', W'), H' = floor((H + 2 padding - dilation (kH - 1) - 1) / stride) "
      "+ 1. padding: one or three numbers, a pair (before, after) for each axis, 'same' (for a "
      "stride of 1) or 'valid'.")};
}

}  // namespace mica
