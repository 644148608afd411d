#include "mica/ops/max_pool2d/max_pool2d.h"

#include <limits>

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/max_pool2d/geometry.h"

namespace mica {
namespace {

void infer(const MaxPool2dParams& params, std::span<const TensorSpec> in, OutSpecs& out) {
  check<DTypeError>(is_floating(in[0].dtype), "max_pool2d: expected a floating input, got {}",
                    in[0].dtype);
  const Pool2dGeometry g = pool2d_geometry("max_pool2d", params, in[0].shape);
  out.add(g.y_shape(), in[0].dtype);
  out.add(g.y_shape(), DType::i32);
}

Tensors vjp(const MaxPool2dParams& params, const VjpArgs& args) {
  return {max_pool2d_grad(args.grad[0], args.out[1], {params, args.in_specs[0].shape})};
}

void infer_grad(const MaxPool2dGradParams& params, std::span<const TensorSpec> in, OutSpecs& out) {
  const Pool2dGeometry g = pool2d_geometry("max_pool2d_grad", params.pool, params.shape);
  check<DTypeError>(is_floating(in[0].dtype), "max_pool2d_grad: expected a floating dy, got {}",
                    in[0].dtype);
  check<DTypeError>(in[1].dtype == DType::i32, "max_pool2d_grad: positions must be i32, got {}",
                    in[1].dtype);
  check<ShapeError>(in[0].shape == g.y_shape() && in[1].shape == g.y_shape(),
                    "max_pool2d_grad: dy and positions must be {}, got {} and {}", g.y_shape(),
                    in[0].shape, in[1].shape);
  out.add(params.shape, in[0].dtype);
}

}  // namespace

Pool2dGeometry pool2d_geometry(const char* op, const MaxPool2dParams& params, const Shape& x) {
  check<ShapeError>(x.rank() == 4, "{}: input must be [N, C, H, W], got {}", op, x);
  const Size2 kernel = params.kernel;
  check<ShapeError>(kernel.h >= 1 && kernel.w >= 1, "{}: kernel must be at least 1, got {}", op,
                    kernel);
  check<ShapeError>(params.stride.h >= 0 && params.stride.w >= 0,
                    "{}: stride must not be negative, got {}", op, params.stride);
  check<ShapeError>(params.padding.h >= 0 && params.padding.w >= 0 &&
                        2 * params.padding.h <= kernel.h && 2 * params.padding.w <= kernel.w,
                    "{}: padding must be in [0, kernel / 2] with kernel = {}, got {}", op, kernel,
                    params.padding);
  check<ShapeError>(
      x[2] + 2 * params.padding.h >= kernel.h && x[3] + 2 * params.padding.w >= kernel.w,
      "{}: kernel of {} by {} does not fit the padded input of {} by {}", op, kernel.h, kernel.w,
      x[2] + 2 * params.padding.h, x[3] + 2 * params.padding.w);
  check<ShapeError>(x[2] >= 1 && x[3] >= 1 && x[2] <= std::numeric_limits<int32_t>::max() / x[3],
                    "{}: an image must have between 1 and 2^31 - 1 positions, got {} by {}", op,
                    x[2], x[3]);
  Pool2dGeometry g;
  g.n = x[0];
  g.c = x[1];
  g.h = x[2];
  g.w = x[3];
  g.kernel = kernel;
  g.stride = {params.stride.h == 0 ? kernel.h : params.stride.h,
              params.stride.w == 0 ? kernel.w : params.stride.w};
  g.padding = params.padding;
  g.oh = (g.h + 2 * g.padding.h - kernel.h) / g.stride.h + 1;
  g.ow = (g.w + 2 * g.padding.w - kernel.w) / g.stride.w + 1;
  return g;
}

const OpDef& max_pool2d_op() {
  static OpDef def = Op<MaxPool2dParams>("max_pool2d")
                         .infer<infer>()
                         .vjp<vjp>({.out = {1}})
                         .cpu({max_pool2d_vectorized_kernel(), max_pool2d_reference_kernel()})
                         .build();
  return def;
}

const OpDef& max_pool2d_grad_op() {
  static OpDef def =
      Op<MaxPool2dGradParams>("max_pool2d_grad")
          .infer<infer_grad>()
          .no_gradient("second order of max pooling is not there yet")
          .cpu({max_pool2d_grad_vectorized_kernel(), max_pool2d_grad_reference_kernel()})
          .build();
  return def;
}

Tensor max_pool2d(const Tensor& x, const MaxPool2dParams& params) {
  return dispatch(max_pool2d_op(), params, {x})[0];
}

Tensor max_pool2d_grad(const Tensor& dy, const Tensor& positions,
                       const MaxPool2dGradParams& params) {
  return dispatch(max_pool2d_grad_op(), params, {dy, positions})[0];
}

}  // namespace mica
