#include "mica/ops/avg_pool2d/avg_pool2d.h"

#include <algorithm>

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/avg_pool2d/windows.h"
#include "mica/ops/conv/cpu_widened.h"
#include "mica/ops/conv/shape.h"
#include "mica/ops/pool/functions.h"
#include "mica/ops/view/leading_axis.h"

namespace mica {
namespace {

void infer(const AvgPool2dParams& params, std::span<const TensorSpec> in, OutSpecs& out) {
  out.add(average_geometry(out.op(), params, in[0].shape).y_shape(), in[0].dtype);
}

Tensors vjp(const AvgPool2dParams& params, const VjpArgs& args) {
  const TensorSpec& x = args.in_specs[0];
  return {in_format_of(x, args.grad[0], avg_pool2d_grad(args.grad[0], {params, x.shape}))};
}

void infer_grad(const AvgPool2dGradParams& params, std::span<const TensorSpec> in, OutSpecs& out) {
  const Shape y = average_geometry(out.op(), params.pool, params.shape).y_shape();
  check<ShapeError>(in[0].shape == y, "{}: dy must be {}, got {}", out.op(), y, in[0].shape);
  out.add(params.shape, in[0].dtype);
}

Tensors vjp_grad(const AvgPool2dGradParams& params, const VjpArgs& args) {
  return {avg_pool2d(args.grad[0], params.pool)};
}

void infer_adaptive(const AdaptivePool2dParams& params, std::span<const TensorSpec> in,
                    OutSpecs& out) {
  out.add(adaptive_pool_shape(out.op(), in[0].shape, dims_of(params.output)), in[0].dtype);
}

Tensors vjp_adaptive(const AdaptivePool2dParams&, const VjpArgs& args) {
  const TensorSpec& x = args.in_specs[0];
  return {in_format_of(x, args.grad[0], adaptive_avg_pool2d_grad(args.grad[0], {x.shape}))};
}

void infer_adaptive_grad(const AdaptivePool2dGradParams& params, std::span<const TensorSpec> in,
                         OutSpecs& out) {
  const Shape& dy = in[0].shape;
  check<ShapeError>(dy.rank() == 4 && params.shape.rank() == 4 && dy[0] == params.shape[0] &&
                        dy[1] == params.shape[1],
                    "{}: dy must be [N, C, H', W'] with N and C of {}, got {}", out.op(),
                    params.shape, dy);
  adaptive_pool_shape(out.op(), params.shape, {dy[2], dy[3]});
  out.add(params.shape, in[0].dtype);
}

Tensors vjp_adaptive_grad(const AdaptivePool2dGradParams&, const VjpArgs& args) {
  const Shape& dy = args.in_specs[0].shape;
  return {adaptive_avg_pool2d(args.grad[0], {dy[2], dy[3]})};
}

AverageAxis make_axis(int64_t size, int64_t outputs) {
  AverageAxis axis;
  axis.windows.resize(static_cast<size_t>(outputs));
  axis.counts.resize(static_cast<size_t>(outputs));
  axis.over.assign(static_cast<size_t>(size), PoolRange{outputs, 0, 1});
  return axis;
}

void set_window(AverageAxis& axis, int64_t output, PoolRange window, int64_t count) {
  axis.windows[static_cast<size_t>(output)] = window;
  axis.counts[static_cast<size_t>(output)] = static_cast<double>(count);
  for (int64_t i = window.first; i < window.last; ++i) {
    PoolRange& over = axis.over[static_cast<size_t>(i)];
    over.first = std::min(over.first, output);
    over.last = output + 1;
  }
}

}  // namespace

Pool2dGeometry average_geometry(const char* op, const AvgPool2dParams& p, const Shape& x) {
  check(p.divisor_override >= 0, "{}: divisor_override must be positive, got {}", op,
        p.divisor_override);
  return pool2d_geometry(
      op, x, {dims_of(p.kernel), dims_of(p.stride), dims_of(p.padding), {1, 1}, p.ceil_mode});
}

Average average(const AvgPool2dParams& p, const Shape& x) {
  Average a;
  a.g = average_geometry("avg_pool2d", p, x);
  const auto axis = [&](int64_t size, int64_t outputs, int64_t kernel, int64_t stride,
                        int64_t padding) {
    AverageAxis result = make_axis(size, outputs);
    for (int64_t o = 0; o < outputs; ++o) {
      const PoolRange window = pool_range(o, size, kernel, stride, padding, 1);
      const int64_t start = o * stride - padding;
      const int64_t count = p.count_include_pad ? std::min(start + kernel, size + padding) - start
                                                : window.last - window.first;
      set_window(result, o, window, p.divisor_override > 0 ? 1 : count);
    }
    return result;
  };
  a.rows = axis(a.g.h, a.g.oh, a.g.kernel.h, a.g.stride.h, a.g.padding.h);
  a.cols = axis(a.g.w, a.g.ow, a.g.kernel.w, a.g.stride.w, a.g.padding.w);
  if (p.divisor_override > 0)
    for (double& count : a.rows.counts) count = static_cast<double>(p.divisor_override);
  return a;
}

Average adaptive_average(Size2 output, const Shape& x) {
  Average a;
  a.g = adaptive_pool2d_geometry("adaptive_avg_pool2d", x, output);
  const auto axis = [&](int64_t size, int64_t outputs) {
    AverageAxis result = make_axis(size, outputs);
    for (int64_t o = 0; o < outputs; ++o) {
      const PoolRange window = adaptive_range(o, outputs, size);
      set_window(result, o, window, window.last - window.first);
    }
    return result;
  };
  a.rows = axis(a.g.h, a.g.oh);
  a.cols = axis(a.g.w, a.g.ow);
  return a;
}

const OpDef& avg_pool2d_op() {
  static OpDef def =
      Op<AvgPool2dParams>("avg_pool2d")
          .inputs({"x"})
          .formats({Format::images}, {Format::images})
          .dtypes(kFloatDTypes)
          .infer<infer>()
          .vjp<vjp>({})
          .cpu({avg_pool2d_separable_kernel(), widened_kernel<avg_pool2d_separable_kernel>(),
                avg_pool2d_reference_kernel()})
          .build();
  return def;
}

const OpDef& avg_pool2d_grad_op() {
  static OpDef def = Op<AvgPool2dGradParams>("avg_pool2d_grad")
                         .inputs({"dy"})
                         .outputs({"dx"})
                         .formats({Format::images}, {Format::images})
                         .dtypes(kFloatDTypes)
                         .infer<infer_grad>()
                         .vjp<vjp_grad>({})
                         .cpu({avg_pool2d_grad_separable_kernel(),
                               widened_kernel<avg_pool2d_grad_separable_kernel>(),
                               avg_pool2d_grad_reference_kernel()})
                         .build();
  return def;
}

const OpDef& adaptive_avg_pool2d_op() {
  static OpDef def = Op<AdaptivePool2dParams>("adaptive_avg_pool2d")
                         .inputs({"x"})
                         .formats({Format::images}, {Format::images})
                         .dtypes(kFloatDTypes)
                         .infer<infer_adaptive>()
                         .vjp<vjp_adaptive>({})
                         .cpu({adaptive_avg_pool2d_separable_kernel(),
                               widened_kernel<adaptive_avg_pool2d_separable_kernel>(),
                               adaptive_avg_pool2d_reference_kernel()})
                         .build();
  return def;
}

const OpDef& adaptive_avg_pool2d_grad_op() {
  static OpDef def = Op<AdaptivePool2dGradParams>("adaptive_avg_pool2d_grad")
                         .inputs({"dy"})
                         .outputs({"dx"})
                         .formats({Format::images}, {Format::images})
                         .dtypes(kFloatDTypes)
                         .infer<infer_adaptive_grad>()
                         .vjp<vjp_adaptive_grad>({})
                         .cpu({adaptive_avg_pool2d_grad_separable_kernel(),
                               widened_kernel<adaptive_avg_pool2d_grad_separable_kernel>(),
                               adaptive_avg_pool2d_grad_reference_kernel()})
                         .build();
  return def;
}

Tensor avg_pool2d(const Tensor& x, const AvgPool2dParams& params) {
  return with_leading_axis(
      x, 4, [&](const Tensor& v) { return dispatch(avg_pool2d_op(), params, {v})[0]; });
}

Tensor avg_pool2d_grad(const Tensor& dy, const AvgPool2dGradParams& params) {
  return dispatch(avg_pool2d_grad_op(), params, {dy})[0];
}

Tensor adaptive_avg_pool2d(const Tensor& x, Size2 output) {
  return with_leading_axis(x, 4, [&](const Tensor& v) {
    return dispatch(adaptive_avg_pool2d_op(), AdaptivePool2dParams{output}, {v})[0];
  });
}

Tensor adaptive_avg_pool2d_grad(const Tensor& dy, const AdaptivePool2dGradParams& params) {
  return dispatch(adaptive_avg_pool2d_grad_op(), params, {dy})[0];
}

Functions avg_pool2d_functions() {
  return {
      avg_pool_function<Size2, avg_pool2d>(
          "avg_pool2d",
          "The mean of each window of input (N, C, H, W): (N, C, H', W'), H' = floor((H + 2 "
          "padding - kernel_size) / stride) + 1; stride is kernel_size unless given. Padding "
          "counts in the divisor with count_include_pad; divisor_override takes its place; with "
          "ceil_mode a last window that reaches past the end counts too."),
      adaptive_pool_function<Size2, adaptive_avg_pool2d>(
          "adaptive_avg_pool2d",
          "The mean of each of output_size = (H', W') windows that divide input (N, C, H, W) into "
          "nearly equal parts, which overlap by one where they are not equal: (N, C, H', W').")};
}

}  // namespace mica
