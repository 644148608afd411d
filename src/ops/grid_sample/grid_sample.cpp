#include "mica/ops/grid_sample/grid_sample.h"

#include <limits>

#include "mica/core/check.h"
#include "mica/op/composition.h"
#include "mica/op/dispatch.h"
#include "mica/op/function.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/grid_sample/composition.h"
#include "mica/ops/grid_sample/taps.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

void check_operands(const char* op, const TensorSpec& x, const TensorSpec& grid) {
  check<ShapeError>(x.rank() == 4, "{}: input must be [N, C, H, W], got {}", op, x.shape);
  check<ShapeError>(grid.rank() == 4 && grid.shape[0] == x.shape[0] && grid.shape[3] == 2,
                    "{}: grid must be [{}, H', W', 2], got {}", op, x.shape[0], grid.shape);
  check<DTypeError>(x.dtype == grid.dtype, "{}: input and grid must have one dtype, got {} and {}",
                    op, x.dtype, grid.dtype);
  check<ShapeError>(x.shape[2] >= 1 && x.shape[3] >= 1 &&
                        x.shape[2] <= std::numeric_limits<int32_t>::max() / x.shape[3],
                    "{}: an image must have between 1 and 2^31 - 1 pixels, got {} by {}", op,
                    x.shape[2], x.shape[3]);
}

Shape result_shape(const TensorSpec& x, const TensorSpec& grid) {
  return {x.shape[0], x.shape[1], grid.shape[1], grid.shape[2]};
}

// Images take the format of x, whatever the grid's.
void add_like(OutSpecs& out, const Shape& shape, const TensorSpec& x) {
  out.add(shape, x.dtype);
  out[out.size() - 1].strides =
      x.is_channels_last() ? channels_last_strides(shape) : contiguous_strides(shape);
}

void infer(const GridSampleParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  check_operands(out.op(), in[0], in[1]);
  add_like(out, result_shape(in[0], in[1]), in[0]);
}

Tensors vjp(const GridSampleParams& p, const VjpArgs& a) {
  // Of x its values are read for the grid's gradient alone.
  const TensorSpec& x = a.in_specs[0];
  const Tensor values = a.needs(1) ? a.in[0]
                                   : contiguous(zeros(x.shape, {x.dtype, x.device}),
                                                x.is_channels_last() ? MemoryFormat::channels_last
                                                                     : MemoryFormat::contiguous);
  const GridSampleGrads grads = grid_sample_grad(a.grad[0], values, a.in[1], p);
  return {grads.x, grads.grid};
}

void infer_grad(const GridSampleParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  const TensorSpec& x = in[1];
  const TensorSpec& grid = in[2];
  check_operands(out.op(), x, grid);
  const Shape y = result_shape(x, grid);
  check<ShapeError>(in[0].shape == y, "{}: dy must be {}, got {}", out.op(), y, in[0].shape);
  check<DTypeError>(in[0].dtype == x.dtype, "{}: dy and input must have one dtype, got {} and {}",
                    out.op(), in[0].dtype, x.dtype);
  add_like(out, x.shape, x);
  out.add(grid.shape, grid.dtype);
  out[1].strides = contiguous_strides(grid.shape);
}

// dy, x, grid
Tensors grad_composition(const GridSampleParams& p, std::span<const Tensor> in) {
  VjpArgs args;
  args.in = in.subspan(1);
  args.grad = in.subspan(0, 1);
  args.needed = 3;
  return differentiate(
      [&](std::span<const Tensor> xs) { return Tensors{grid_sample_by_ops(xs[0], xs[1], p)}; },
      args);
}

// The coordinates of n pixels' middles.
Tensor middles(int64_t n, bool align_corners, TensorOptions options) {
  const double outermost = align_corners ? (n > 1 ? 1 : 0)
                           : n > 0       ? 1 - 1 / static_cast<double>(n)
                                         : 0;
  return linspace(-outermost, outermost, n, options);
}

}  // namespace

const OpDef& grid_sample_op() {
  static OpDef def = Op<GridSampleParams>("grid_sample")
                         .inputs({"x", "grid"})
                         .precision(Precision::widest)
                         .dtypes(kFloatDTypes)
                         .infer<infer>()
                         .vjp<vjp>({.in = {{0, {1}}, 1}})
                         .cpu({grid_sample_tabulated_kernel(), grid_sample_reference_kernel()})
                         .build();
  return def;
}

const OpDef& grid_sample_grad_op() {
  static OpDef def =
      Op<GridSampleParams>("grid_sample_grad")
          .inputs({"dy", "x", "grid"})
          .outputs({"dx", "dgrid"})
          .dtypes(kFloatDTypes)
          .infer<infer_grad>()
          .vjp<vjp_by<grad_composition, GridSampleParams>>({.in = {0, 1, 2}})
          .cpu({grid_sample_grad_tabulated_kernel(), grid_sample_grad_reference_kernel()})
          .build();
  return def;
}

Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleParams& params) {
  return dispatch(grid_sample_op(), params, {x, grid})[0];
}

GridSampleGrads grid_sample_grad(const Tensor& dy, const Tensor& x, const Tensor& grid,
                                 const GridSampleParams& params) {
  const Outputs out = dispatch(grid_sample_grad_op(), params, {dy, x, grid});
  return {out[0], out[1]};
}

Tensor affine_grid(const Tensor& theta, Size2 size, const AffineGridOptions& params) {
  check<ShapeError>(theta.rank() == 3 && theta.size(1) == 2 && theta.size(2) == 3,
                    "affine_grid: theta must be [N, 2, 3], got {}", theta.shape());
  check<DTypeError>(is_floating(theta.dtype()), "affine_grid: expected a floating dtype, got {}",
                    theta.dtype());
  check<ShapeError>(size.h >= 0 && size.w >= 0, "affine_grid: size must not be negative, got {}",
                    size);
  const TensorOptions options{theta.dtype() == DType::f64 ? DType::f64 : DType::f32,
                              theta.device()};
  const Tensor wide = cast(theta, options.dtype);
  const auto column = [&](int64_t i) {
    return reshape(slice(wide, 2, i, i + 1), {theta.size(0), 1, 1, 2});
  };
  const Tensor x = reshape(middles(size.w, params.align_corners, options), {size.w, 1});
  const Tensor y = reshape(middles(size.h, params.align_corners, options), {size.h, 1, 1});
  return cast(column(0) * x + (column(1) * y + column(2)), theta.dtype());
}

template <>
struct Words<GridMode> {
  static constexpr std::pair<const char*, GridMode> all[] = {{"bilinear", GridMode::bilinear},
                                                             {"nearest", GridMode::nearest},
                                                             {"bicubic", GridMode::bicubic}};
};

template <>
struct Words<GridPadding> {
  static constexpr std::pair<const char*, GridPadding> all[] = {
      {"zeros", GridPadding::zeros},
      {"border", GridPadding::border},
      {"reflection", GridPadding::reflection}};
};

Functions grid_sample_functions() {
  const auto sample = [](const Tensor& x, const Tensor& grid, GridMode mode, GridPadding padding,
                         bool align_corners) {
    return grid_sample(x, grid, {.mode = mode, .padding = padding, .align_corners = align_corners});
  };
  return {
      {.name = "grid_sample",
       .doc = "input (N, C, H, W) at the points (x, y) of grid (N, H', W', 2): (N, C, H', W'). The "
              "image reaches from -1 to 1: its edges, or the middles of the corner pixels with "
              "align_corners. mode: 'bilinear', 'nearest' or 'bicubic'; padding_mode, of what lies "
              "outside: 'zeros', 'border' or 'reflection'. A point that is NaN gives 0.",
       .signatures = {{sample,
                       {"input",
                        "grid",
                        {"mode", "bilinear"},
                        {"padding_mode", "zeros"},
                        {"align_corners", false}}}},
       .offer = kFunctional}};
}

Functions affine_grid_functions() {
  // The size of the images is (N, C, H, W), as PyTorch has it.
  const auto grid = [](const Tensor& theta, const Dims& size, bool align_corners) {
    check<ShapeError>(size.rank() == 4, "affine_grid: size must be (N, C, H, W), got {}", size);
    check<ShapeError>(theta.rank() == 0 || size[0] == theta.shape()[0],
                      "affine_grid: size {} is of {} images, theta {} of others", size, size[0],
                      theta.shape());
    return affine_grid(theta, {size[2], size[3]}, {.align_corners = align_corners});
  };
  return {{.name = "affine_grid",
           .doc = "The grid (N, H, W, 2) for grid_sample that the matrices theta (N, 2, 3) make of "
                  "the pixels of images of this size, (N, C, H, W). align_corners as there.",
           .signatures = {{grid, {"theta", "size", {"align_corners", false}}}},
           .offer = kFunctional}};
}

}  // namespace mica
