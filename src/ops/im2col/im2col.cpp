#include "mica/ops/im2col/im2col.h"

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/op/function.h"
#include "mica/ops/im2col/windows.h"
#include "mica/ops/view/leading_axis.h"

namespace mica {
namespace {

constexpr int64_t kMost = int64_t{1} << 31;

// Sums and products of these stay far below 2^63.
void check_range(const char* op, const char* what, Size2 value, int64_t least) {
  check<ShapeError>(value.h >= least && value.w >= least && value.h < kMost && value.w < kMost,
                    "{}: {} must be between {} and 2^31 - 1 each way, got {}", op, what, least,
                    value);
}

void infer(const Im2colParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  const Shape& x = in[0].shape;
  check<ShapeError>(x.rank() == 4, "{}: input must be [N, C, H, W], got {}", out.op(), x);
  const Windows g = im2col_windows(out.op(), p, x[0], x[1], x[2], x[3]);
  const int64_t rows = numel({g.c, p.kernel.h, p.kernel.w});
  out.add({g.n, rows, numel({g.oh, g.ow})}, in[0].dtype);
}

Tensors vjp(const Im2colParams& p, const VjpArgs& a) {
  const Shape& x = a.in_specs[0].shape;
  return {col2im(a.grad[0], {p, {x[2], x[3]}})};
}

void infer_col2im(const Col2imParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  const Shape& cols = in[0].shape;
  const Windows g = im2col_windows(out.op(), p.im2col, 0, 0, p.size.h, p.size.w);
  const int64_t area = numel({p.im2col.kernel.h, p.im2col.kernel.w});
  const int64_t windows = numel({g.oh, g.ow});
  check<ShapeError>(cols.rank() == 3 && cols[1] % area == 0 && cols[2] == windows,
                    "{}: columns must be [N, C * {}, {}], got {}", out.op(), area, windows, cols);
  out.add({cols[0], cols[1] / area, p.size.h, p.size.w}, in[0].dtype);
}

Tensors vjp_col2im(const Col2imParams& p, const VjpArgs& a) {
  return {im2col(a.grad[0], p.im2col)};
}

}  // namespace

Windows im2col_windows(const char* op, const Im2colParams& p, int64_t n, int64_t c, int64_t h,
                       int64_t w) {
  check_range(op, "kernel", p.kernel, 1);
  check_range(op, "stride", p.stride, 1);
  check_range(op, "padding", p.padding, 0);
  check_range(op, "dilation", p.dilation, 1);
  check_range(op, "an image", {h, w}, 0);
  const int64_t rest_h = h + 2 * p.padding.h - p.dilation.h * (p.kernel.h - 1) - 1;
  const int64_t rest_w = w + 2 * p.padding.w - p.dilation.w * (p.kernel.w - 1) - 1;
  check<ShapeError>(rest_h >= 0 && rest_w >= 0,
                    "{}: a window of {} with dilation {} does not fit the padded image of {} by {}",
                    op, p.kernel, p.dilation, h + 2 * p.padding.h, w + 2 * p.padding.w);
  return {n, c, h, w, rest_h / p.stride.h + 1, rest_w / p.stride.w + 1, p};
}

const OpDef& im2col_op() {
  static OpDef def = Op<Im2colParams>("im2col")
                         .inputs({"x"})
                         .outputs({"columns"})
                         .dtypes(kFloatDTypes)
                         .infer<infer>()
                         .vjp<vjp>({})
                         .cpu({im2col_rows_kernel(), im2col_reference_kernel()})
                         .build();
  return def;
}

const OpDef& col2im_op() {
  static OpDef def = Op<Col2imParams>("col2im")
                         .inputs({"columns"})
                         .dtypes(kFloatDTypes)
                         .infer<infer_col2im>()
                         .vjp<vjp_col2im>({})
                         .cpu({col2im_rows_kernel(), col2im_reference_kernel()})
                         .build();
  return def;
}

Tensor im2col(const Tensor& x, const Im2colParams& params) {
  return with_leading_axis(x, 4,
                           [&](const Tensor& v) { return dispatch(im2col_op(), params, {v})[0]; });
}

Tensor col2im(const Tensor& columns, const Col2imParams& params) {
  return with_leading_axis(columns, 3,
                           [&](const Tensor& v) { return dispatch(col2im_op(), params, {v})[0]; });
}

Functions im2col_functions() {
  const auto unfold = [](const Tensor& x, Size2 kernel, Size2 dilation, Size2 padding,
                         Size2 stride) {
    return im2col(x,
                  {.kernel = kernel, .stride = stride, .padding = padding, .dilation = dilation});
  };
  const auto fold = [](const Tensor& x, Size2 size, Size2 kernel, Size2 dilation, Size2 padding,
                       Size2 stride) {
    const Im2colParams windows = {
        .kernel = kernel, .stride = stride, .padding = padding, .dilation = dilation};
    return col2im(x, {.im2col = windows, .size = size});
  };
  return {
      {.name = "unfold",
       .doc = "The windows of input (N, C, H, W), zero-padded, as columns (N, C * kH * kW, L), "
              "where L counts the windows row by row.",
       .signatures = {{unfold,
                       {"input", "kernel_size", {"dilation", 1}, {"padding", 0}, {"stride", 1}}}},
       .offer = kFunctional,
       .op = "im2col"},
      {.name = "fold",
       .doc = "The adjoint of unfold: input (N, C * kH * kW, L) added up to images (N, C, H, W) of "
              "output_size = (H, W).",
       .signatures = {{fold,
                       {"input",
                        "output_size",
                        "kernel_size",
                        {"dilation", 1},
                        {"padding", 0},
                        {"stride", 1}}}},
       .offer = kFunctional,
       .op = "col2im"}};
}

}  // namespace mica
