#include "mica/ops/max_pool2d/max_pool2d.h"

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/conv/cpu_widened.h"
#include "mica/ops/conv/shape.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/max_pool2d/geometry.h"
#include "mica/ops/pool/functions.h"
#include "mica/ops/view/leading_axis.h"

namespace mica {
namespace {

void infer(const MaxPool2dParams& params, std::span<const TensorSpec> in, OutSpecs& out) {
  const Pool2dGeometry g = pool2d_geometry(out.op(), params, in[0].shape);
  out.add(g.y_shape(), in[0].dtype);
  out.add(g.y_shape(), DType::i32);
}

Tensors vjp(const MaxPool2dParams& params, const VjpArgs& args) {
  const TensorSpec& x = args.in_specs[0];
  return {
      in_format_of(x, args.grad[0], max_pool2d_grad(args.grad[0], args.out[1], {params, x.shape}))};
}

void infer_grad(const MaxPool2dGradParams& params, std::span<const TensorSpec> in, OutSpecs& out) {
  const Pool2dGeometry g = pool2d_geometry("max_pool2d_grad", params.pool, params.shape);
  check<DTypeError>(in[1].dtype == DType::i32, "max_pool2d_grad: positions must be i32, got {}",
                    in[1].dtype);
  check<ShapeError>(in[0].shape == g.y_shape() && in[1].shape == g.y_shape(),
                    "max_pool2d_grad: dy and positions must be {}, got {} and {}", g.y_shape(),
                    in[0].shape, in[1].shape);
  out.add(params.shape, in[0].dtype);
}

// (N, C, H, W) as (N, C, H * W), where a position is an index.
Tensor planes(const Tensor& x) { return reshape(x, {x.size(0), x.size(1), x.size(2) * x.size(3)}); }

Tensors vjp_grad(const MaxPool2dGradParams&, const VjpArgs& args) {
  const Tensor& positions = args.in[1];
  return {reshape(gather(planes(args.grad[0]), 2, planes(positions)), positions.shape()), {}};
}

void infer_adaptive(const AdaptivePool2dParams& params, std::span<const TensorSpec> in,
                    OutSpecs& out) {
  const Shape y = adaptive_pool2d_geometry(out.op(), in[0].shape, params.output).y_shape();
  out.add(y, in[0].dtype);
  out.add(y, DType::i32);
}

Tensors vjp_adaptive(const AdaptivePool2dParams&, const VjpArgs& args) {
  const Shape& shape = args.in_specs[0].shape;
  const Tensor& dy = args.grad[0];
  const Tensor zero = zeros({shape[0], shape[1], shape[2] * shape[3]}, {dy.dtype(), dy.device()});
  const Tensor dx = scatter_add(zero, 2, planes(args.out[1]), planes(dy));
  return {in_format_of(args.in_specs[0], dy, reshape(dx, shape))};
}

}  // namespace

Pool2dGeometry pool2d_geometry(const char* op, const MaxPool2dParams& p, const Shape& x) {
  return pool2d_geometry(
      op, x,
      {dims_of(p.kernel), dims_of(p.stride), dims_of(p.padding), dims_of(p.dilation), p.ceil_mode});
}

const OpDef& max_pool2d_op() {
  static OpDef def =
      Op<MaxPool2dParams>("max_pool2d")
          .inputs({"x"})
          .outputs({"y", "positions"})
          .formats({Format::images}, {Format::images, Format::images})
          .dtypes(kFloatDTypes)
          .infer<infer>()
          .vjp<vjp>({.out = {1}})
          .cpu({max_pool2d_vectorized_kernel(), widened_kernel<max_pool2d_vectorized_kernel>(),
                max_pool2d_reference_kernel()})
          .build();
  return def;
}

const OpDef& max_pool2d_grad_op() {
  static OpDef def = Op<MaxPool2dGradParams>("max_pool2d_grad")
                         .inputs({"dy", "positions"})
                         .outputs({"dx"})
                         .formats({Format::images, Format::images}, {Format::images})
                         .dtypes(kFloatDTypes)
                         .infer<infer_grad>()
                         .vjp<vjp_grad>({.in = {1}})
                         .cpu({max_pool2d_grad_vectorized_kernel(),
                               widened_kernel<max_pool2d_grad_vectorized_kernel>(),
                               max_pool2d_grad_reference_kernel()})
                         .build();
  return def;
}

const OpDef& adaptive_max_pool2d_op() {
  static OpDef def = Op<AdaptivePool2dParams>("adaptive_max_pool2d")
                         .inputs({"x"})
                         .outputs({"y", "positions"})
                         .formats({Format::images}, {Format::images, Format::images})
                         .dtypes(kFloatDTypes)
                         .infer<infer_adaptive>()
                         .vjp<vjp_adaptive>({.out = {1}})
                         .cpu({adaptive_max_pool2d_vectorized_kernel(),
                               widened_kernel<adaptive_max_pool2d_vectorized_kernel>(),
                               adaptive_max_pool2d_reference_kernel()})
                         .build();
  return def;
}

Tensor max_pool2d(const Tensor& x, const MaxPool2dParams& params) {
  if (x.rank() == 3)
    return with_leading_axis(x, 4, [&](const Tensor& v) { return max_pool2d(v, params); });
  return dispatch(max_pool2d_op(), params, {x})[0];
}

PooledWithIndices max_pool2d_with_indices(const Tensor& x, const MaxPool2dParams& params) {
  return with_leading_axis(x, 4, [&](const Tensor& v) -> PooledWithIndices {
    const Outputs out = dispatch(max_pool2d_op(), params, {v});
    return {out[0], cast(out[1], DType::i64)};
  });
}

Tensor max_pool2d_grad(const Tensor& dy, const Tensor& positions,
                       const MaxPool2dGradParams& params) {
  return dispatch(max_pool2d_grad_op(), params, {dy, positions})[0];
}

Tensor adaptive_max_pool2d(const Tensor& x, Size2 output) {
  return with_leading_axis(x, 4, [&](const Tensor& v) {
    return dispatch(adaptive_max_pool2d_op(), AdaptivePool2dParams{output}, {v})[0];
  });
}

PooledWithIndices adaptive_max_pool2d_with_indices(const Tensor& x, Size2 output) {
  return with_leading_axis(x, 4, [&](const Tensor& v) -> PooledWithIndices {
    const Outputs out = dispatch(adaptive_max_pool2d_op(), AdaptivePool2dParams{output}, {v});
    return {out[0], cast(out[1], DType::i64)};
  });
}

Functions max_pool2d_functions() {
  return {max_pool_function<Size2, max_pool2d, max_pool2d_with_indices>(
              "max_pool2d",
              "The largest value of each window of input (N, C, H, W): (N, C, H', W'), H' = "
              "floor((H + 2 padding - dilation (kernel_size - 1) - 1) / stride) + 1; stride is "
              "kernel_size unless given, with ceil_mode a last window that reaches past the end "
              "counts too. NaN wins; the first of equals has the gradient."),
          adaptive_max_pool_function<Size2, adaptive_max_pool2d, adaptive_max_pool2d_with_indices>(
              "adaptive_max_pool2d",
              "The largest value of each of output_size = (H', W') windows that "
              "divide input (N, C, H, W) into nearly equal parts, which overlap "
              "by one where they are not equal: (N, C, H', W'). NaN wins."),
          max_pool_with_indices<Size2, max_pool2d_with_indices>("max_pool2d_with_indices",
                                                                "max_pool2d"),
          adaptive_with_indices<Size2, adaptive_max_pool2d_with_indices>(
              "adaptive_max_pool2d_with_indices", "adaptive_max_pool2d")};
}

}  // namespace mica
