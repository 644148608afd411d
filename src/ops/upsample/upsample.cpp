#include "mica/ops/upsample/upsample.h"

#include <cmath>
#include <limits>

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/upsample/taps.h"

namespace mica {
namespace {

constexpr int64_t kMostPixels = std::numeric_limits<int32_t>::max();

void check_size(const char* op, const char* what, Size2 size) {
  check<ShapeError>(size.h >= 1 && size.w >= 1 && size.h <= kMostPixels && size.w <= kMostPixels,
                    "{}: {} must be between 1 and 2^31 - 1 each way, got {}", op, what, size);
}

void check_params(const char* op, const Upsample2dParams& p) {
  check(p.mode != UpsampleMode::linear && p.mode != UpsampleMode::trilinear &&
            p.mode != UpsampleMode::area,
        "{}: mode {} is not for [N, C, H, W]", op, print_field(p.mode));
  check_size(op, "the result's size", p.size);
  constexpr auto kMost = static_cast<double>(kMostPixels);
  for (const double scale : {p.scale_h, p.scale_w})
    check<ShapeError>(scale == 0 || (scale >= 1 / kMost && scale <= kMost),
                      "{}: scale must be 0 or between 2^-31 and 2^31, got {}", op, scale);
}

void infer(const Upsample2dParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  const Shape& x = in[0].shape;
  check<ShapeError>(x.rank() == 4, "{}: input must be [N, C, H, W], got {}", out.op(), x);
  check_params(out.op(), p);
  check_size(out.op(), "an image", {x[2], x[3]});
  out.add({x[0], x[1], p.size.h, p.size.w}, in[0].dtype);
}

Tensors vjp(const Upsample2dParams& p, const VjpArgs& a) {
  const Shape& x = a.in_specs[0].shape;
  return {upsample2d_grad(a.grad[0], {p, {x[2], x[3]}})};
}

void infer_grad(const Upsample2dGradParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  const Shape& dy = in[0].shape;
  check_params(out.op(), p.upsample);
  check_size(out.op(), "an image", p.input);
  const Size2 size = p.upsample.size;
  check<ShapeError>(dy.rank() == 4 && dy[2] == size.h && dy[3] == size.w,
                    "{}: dy must be [N, C, {}, {}], got {}", out.op(), size.h, size.w, dy);
  out.add({dy[0], dy[1], p.input.h, p.input.w}, in[0].dtype);
}

Tensors vjp_grad(const Upsample2dGradParams& p, const VjpArgs& a) {
  return {upsample2d(a.grad[0], p.upsample)};
}

}  // namespace

const OpDef& upsample2d_op() {
  static OpDef def = Op<Upsample2dParams>("upsample2d")
                         .inputs({"x"})
                         .formats({Format::images}, {Format::images})
                         .dtypes(kFloatDTypes)
                         .infer<infer>()
                         .vjp<vjp>({})
                         .cpu({upsample2d_separable_kernel(), upsample2d_reference_kernel()})
                         .build();
  return def;
}

const OpDef& upsample2d_grad_op() {
  static OpDef def =
      Op<Upsample2dGradParams>("upsample2d_grad")
          .inputs({"dy"})
          .outputs({"dx"})
          .formats({Format::images}, {Format::images})
          .dtypes(kFloatDTypes)
          .infer<infer_grad>()
          .vjp<vjp_grad>({})
          .cpu({upsample2d_grad_separable_kernel(), upsample2d_grad_reference_kernel()})
          .build();
  return def;
}

Tensor upsample2d(const Tensor& x, const Upsample2dParams& params) {
  return dispatch(upsample2d_op(), params, {x})[0];
}

Tensor upsample2d_grad(const Tensor& dy, const Upsample2dGradParams& params) {
  return dispatch(upsample2d_grad_op(), params, {dy})[0];
}

}  // namespace mica
