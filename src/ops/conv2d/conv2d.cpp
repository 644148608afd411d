#include "mica/ops/conv2d/conv2d.h"

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/conv/cpu_widened.h"
#include "mica/ops/conv/flops.h"
#include "mica/ops/conv/functions.h"
#include "mica/ops/conv/shape.h"
#include "mica/ops/conv2d/geometry.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/leading_axis.h"

namespace mica {
namespace {

void check_dtypes(const char* op, DType a, DType b) {
  check<DTypeError>(a == b, "{}: operands must have one dtype, got {} and {}", op, a, b);
}

void infer(const Conv2dParams& params, std::span<const TensorSpec> in, OutSpecs& out) {
  const Conv2dGeometry g = conv2d_geometry("conv2d", params, in[0].shape, in[1].shape);
  check_conv_operands("conv2d", in[0], in[1], in[2], g.o);
  out.add(g.y_shape(), in[0].dtype);
}

Tensors vjp(const Conv2dParams& params, const VjpArgs& args) {
  return conv2d_gradients(params, args.grad[0], args);
}

void check_dy(const char* op, const Conv2dGeometry& g, const Shape& dy) {
  check<ShapeError>(dy == g.y_shape(), "{}: dy must have the convolution's shape {}, got {}", op,
                    g.y_shape(), dy);
}

void infer_dgrad(const Conv2dGradParams& params, std::span<const TensorSpec> in, OutSpecs& out) {
  check_dtypes("conv2d_dgrad", in[0].dtype, in[1].dtype);
  check_dy("conv2d_dgrad", conv2d_geometry("conv2d_dgrad", params.conv, params.shape, in[1].shape),
           in[0].shape);
  out.add(params.shape, in[0].dtype);
}

// The op is linear in both inputs.
Tensors vjp_dgrad(const Conv2dGradParams& params, const VjpArgs& args) {
  const Tensor& g = args.grad[0];
  Tensors grads(2);
  if (args.needs(0)) grads[0] = conv2d(g, args.in[1], {}, params.conv);
  if (args.needs(1)) grads[1] = conv2d_wgrad(args.in[0], g, {params.conv, args.in_specs[1].shape});
  return grads;
}

void infer_wgrad(const Conv2dGradParams& params, std::span<const TensorSpec> in, OutSpecs& out) {
  check_dtypes("conv2d_wgrad", in[0].dtype, in[1].dtype);
  check_dy("conv2d_wgrad", conv2d_geometry("conv2d_wgrad", params.conv, in[1].shape, params.shape),
           in[0].shape);
  out.add(params.shape, in[0].dtype);
  out[0].strides =
      params.channels_last ? channels_last_strides(params.shape) : contiguous_strides(params.shape);
}

Tensors vjp_wgrad(const Conv2dGradParams& params, const VjpArgs& args) {
  const Tensor& g = args.grad[0];
  Tensors grads(2);
  if (args.needs(0)) grads[0] = conv2d(args.in[1], g, {}, params.conv);
  if (args.needs(1)) grads[1] = conv2d_dgrad(args.in[0], g, {params.conv, args.in_specs[1].shape});
  return grads;
}

}  // namespace

Conv2dGeometry conv2d_geometry(const char* op, const Conv2dParams& params, const Shape& x,
                               const Shape& weight) {
  const Dims padding = dims_of(params.padding);
  const Shape y = conv_shape(
      op, x, weight,
      {dims_of(params.stride), padding, padding, dims_of(params.dilation), params.groups});
  Conv2dGeometry g;
  g.n = x[0];
  g.c = x[1];
  g.h = x[2];
  g.w = x[3];
  g.o = weight[0];
  g.kh = weight[2];
  g.kw = weight[3];
  g.oh = y[2];
  g.ow = y[3];
  g.stride = params.stride;
  g.padding = params.padding;
  g.dilation = params.dilation;
  g.groups = params.groups;
  return g;
}

Tensors conv2d_gradients(const Conv2dParams& params, const Tensor& dy, const VjpArgs& args) {
  Tensors grads(3);
  if (args.needs(0)) {
    const TensorSpec& x = args.in_specs[0];
    grads[0] = in_format_of(x, dy, conv2d_dgrad(dy, args.in[1], {params, x.shape}));
  }
  const TensorSpec& weight = args.in_specs[1];
  if (args.needs(1))
    grads[1] = conv2d_wgrad(dy, args.in[0], {params, weight.shape, weight.is_channels_last()});
  if (args.needs(2)) grads[2] = sum(dy, {0, 2, 3});
  return grads;
}

const OpDef& conv2d_op() {
  static OpDef def =
      Op<Conv2dParams>("conv2d")
          .inputs({"x", "weight", "bias?"})
          .flops<conv_flops<Conv2dParams>>()
          .precision(Precision::low)
          .formats({Format::images, Format::weight}, {Format::images})
          .contraction({.channel_axis = 1})
          .carries({}, {0})
          .in_bytes("quantized_conv2d")
          .dtypes(kFloatDTypes)
          .infer<infer>()
          .vjp<vjp>({.in = {{0, {1}}, {1, {0}}}})
          .cpu({conv2d_depthwise_kernel(), conv2d_cpu_direct_kernel(), conv2d_im2col_kernel(),
                widened_kernel<conv2d_depthwise_kernel>("widened_depthwise"),
                widened_kernel<conv2d_cpu_direct_kernel>("widened_direct"),
                widened_kernel<conv2d_im2col_kernel>(), conv2d_reference_kernel()})
          .build();
  return def;
}

const OpDef& conv2d_dgrad_op() {
  static OpDef def =
      Op<Conv2dGradParams>("conv2d_dgrad")
          .inputs({"dy", "weight"})
          .outputs({"dx"})
          .flops<conv_dgrad_flops<Conv2dGradParams>>()
          .formats({Format::images, Format::weight}, {Format::images})
          .carries({}, {0})
          .dtypes(kFloatDTypes)
          .infer<infer_dgrad>()
          .vjp<vjp_dgrad>({.in = {{0, {1}}, {1, {0}}}})
          .cpu({conv2d_dgrad_depthwise_kernel(), conv2d_dgrad_cpu_direct_kernel(),
                conv2d_dgrad_im2col_kernel(),
                widened_kernel<conv2d_dgrad_depthwise_kernel>("widened_depthwise"),
                widened_kernel<conv2d_dgrad_cpu_direct_kernel>("widened_direct"),
                widened_kernel<conv2d_dgrad_im2col_kernel>(), conv2d_dgrad_reference_kernel()})
          .build();
  return def;
}

const OpDef& conv2d_wgrad_op() {
  static OpDef def = Op<Conv2dGradParams>("conv2d_wgrad")
                         .inputs({"dy", "x"})
                         .outputs({"dweight"})
                         .flops<conv_wgrad_flops<Conv2dGradParams>>()
                         .formats({Format::images, Format::images}, {Format::weight})
                         .dtypes(kFloatDTypes)
                         .infer<infer_wgrad>()
                         .vjp<vjp_wgrad>({.in = {{0, {1}}, {1, {0}}}})
                         .cpu({conv2d_wgrad_depthwise_kernel(), conv2d_wgrad_cpu_direct_kernel(),
                               conv2d_wgrad_im2col_kernel(),
                               widened_kernel<conv2d_wgrad_depthwise_kernel>("widened_depthwise"),
                               widened_kernel<conv2d_wgrad_cpu_direct_kernel>("widened_direct"),
                               widened_kernel<conv2d_wgrad_im2col_kernel>(),
                               conv2d_wgrad_row_major_kernel(), conv2d_wgrad_reference_kernel()})
                         .build();
  return def;
}

// On the CPU oneDNN's alone.
KernelList conv2d_carrying_kernels() { return {}; }

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const ConvOptions<Size2>& options) {
  if (x.rank() == 3)
    return with_leading_axis(x, 4,
                             [&](const Tensor& v) { return conv2d(v, weight, bias, options); });
  const auto call = [&](const Tensor& input, Size2 padding) {
    const Conv2dParams params{options.stride, padding, options.dilation, options.groups};
    return dispatch(conv2d_op(), params, {input, weight, bias})[0];
  };
  const Padding<Size2>& p = options.padding;
  if (!p.same_size && p.before == p.after) return call(x, p.before);
  ConvWindows windows = conv_windows("conv2d", options, weight.shape());
  conv_shape("conv2d", x.shape(), weight.shape(), windows);
  const Tensor padded = pad_unevenly(x, windows);
  return call(padded, {windows.before[0], windows.before[1]});
}

Tensor conv2d_dgrad(const Tensor& dy, const Tensor& weight, const Conv2dGradParams& params) {
  return dispatch(conv2d_dgrad_op(), params, {dy, weight})[0];
}

Tensor conv2d_wgrad(const Tensor& dy, const Tensor& x, const Conv2dGradParams& params) {
  return dispatch(conv2d_wgrad_op(), params, {dy, x})[0];
}

Functions conv2d_functions() {
  return {conv_function<Size2, conv2d>(
      "conv2d",
      "Cross-correlation of input (N, C, H, W) with weight (O, C / groups, kH, kW), plus bias (O): "
      "(N, O, H', W'), H' = floor((H + 2 padding - dilation (kH - 1) - 1) / stride) + 1. padding: "
      "one or two numbers, a pair (before, after) for each axis, 'same' (for a stride of 1) or "
      "'valid'.")};
}

}  // namespace mica
