#include "mica/ops/upsample/upsample.h"

#include <cmath>
#include <limits>

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/op/function.h"
#include "mica/ops/upsample/taps.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

constexpr int64_t kMostPixels = std::numeric_limits<int32_t>::max();

void check_size(const char* op, const char* what, Size2 size) {
  check<ShapeError>(size.h >= 1 && size.w >= 1 && size.h <= kMostPixels && size.w <= kMostPixels,
                    "{}: {} must be between 1 and 2^31 - 1 each way, got {}", op, what, size);
}

void check_params(const char* op, const Upsample2dParams& p) {
  check(p.mode != UpsampleMode::linear, "{}: mode linear is for [N, C, L] only", op);
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

// Pixels of the result along an image axis, one of `axes`.
int64_t result_size(const UpsampleOptions& o, int64_t pixels, int axis, int axes, double scale) {
  if (!o.size.empty()) return o.size[o.size.rank() == 1 ? 0 : axis];
  check<ShapeError>(scale > 0 && std::isfinite(scale),
                    "upsample: scale must be positive and finite, got {}", scale);
  const double size = std::floor(static_cast<double>(pixels) * scale);
  check<ShapeError>(size >= 1 && size <= static_cast<double>(kMostPixels),
                    "upsample: scale {} makes {} pixels of the {} along image axis {} of {}", scale,
                    size, pixels, axis, axes);
  return static_cast<int64_t>(size);
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

Tensor upsample(const Tensor& x, const UpsampleOptions& o) {
  const int axes = x.rank() - 2;
  const Shape& shape = x.shape();
  check<ShapeError>(axes == 1 || axes == 2,
                    "upsample: input must be [N, C, L] or [N, C, H, W], got {}", shape);
  const bool flat = o.mode == UpsampleMode::linear;
  check<ShapeError>(o.mode == UpsampleMode::nearest || flat == (axes == 1),
                    "upsample: mode {} takes {}, got {}", print_field(o.mode),
                    flat ? "[N, C, L]" : "[N, C, H, W]", shape);
  check(o.mode != UpsampleMode::nearest || !o.align_corners,
        "upsample: align_corners means nothing for mode nearest");
  const bool scaled = o.scale.h != 0 || o.scale.w != 0;
  check(o.size.empty() == scaled, "upsample: expected either size or scale, got {}",
        scaled ? "both" : "neither");
  check<ShapeError>(scaled || o.size.rank() == 1 || o.size.rank() == axes,
                    "upsample: size must have {} entries, got {}", axes, o.size);
  if (axes == 1) {
    const int64_t width = result_size(o, shape[2], 0, axes, o.scale.w);
    const Upsample2dParams p{.mode = flat ? UpsampleMode::bilinear : o.mode,
                             .size = {1, width},
                             .scale_w = o.scale.w,
                             .align_corners = o.align_corners};
    const Tensor y = upsample2d(reshape(x, {shape[0], shape[1], 1, shape[2]}), p);
    return reshape(y, {shape[0], shape[1], width});
  }
  return upsample2d(x, {.mode = o.mode,
                        .size = {result_size(o, shape[2], 0, axes, o.scale.h),
                                 result_size(o, shape[3], 1, axes, o.scale.w)},
                        .scale_h = o.scale.h,
                        .scale_w = o.scale.w,
                        .align_corners = o.align_corners});
}

template <>
struct Words<UpsampleMode> {
  static constexpr std::pair<const char*, UpsampleMode> all[] = {
      {"nearest", UpsampleMode::nearest},
      {"linear", UpsampleMode::linear},
      {"bilinear", UpsampleMode::bilinear},
      {"bicubic", UpsampleMode::bicubic}};
};

Functions upsample_functions() {
  const auto interpolate = [](const Tensor& x, const Dims& size, const std::vector<double>& scale,
                              UpsampleMode mode, bool align_corners) {
    check<ShapeError>(scale.size() <= 2,
                      "interpolate: scale_factor must be one or two numbers, got {}", scale.size());
    const Scale2 factor = scale.empty()       ? Scale2()
                          : scale.size() == 1 ? Scale2(scale[0])
                                              : Scale2(scale[0], scale[1]);
    return upsample(x,
                    {.size = size, .scale = factor, .mode = mode, .align_corners = align_corners});
  };
  return {
      {.name = "interpolate",
       .doc = "input (N, C, L) or (N, C, H, W) at another resolution: size, or floor(size * "
              "scale_factor). mode: 'nearest', 'linear' (of L), 'bilinear' or 'bicubic' (of H, W). "
              "align_corners keeps the middles of the corner pixels in place instead of the edges.",
       .signatures = {{interpolate,
                       {"input",
                        {"size", kNone},
                        {"scale_factor", kNone},
                        {"mode", "nearest"},
                        {"align_corners", false}}}},
       .offer = kFunctional,
       .op = "upsample"}};
}

}  // namespace mica
