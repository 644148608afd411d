#include "mica/ops/fft/fft.h"

#include <algorithm>
#include <cmath>

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/complex/complex.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fft/cpu.h"
#include "mica/ops/fft/lines.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/pad/pad.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

constexpr DTypeSet kParts{{DType::f32, DType::f64}, "f32 or f64"};

int64_t line_of(const char* op, const Shape& shape) {
  check<ShapeError>(shape.rank() > 0 && shape.back() > 0,
                    "{}: the transformed axis must have at least one element, got {}", op, shape);
  return shape.back();
}

void infer_fft(const FftParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  line_of("fft", in[0].shape);
  out.add(in[0].shape, in[0].dtype);
  out[0].strides = contiguous_strides(in[0].shape);
}
void infer_rfft(const RealFftParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  Shape shape = in[0].shape;
  shape[shape.rank() - 1] = line_of("rfft", shape) / 2 + 1;
  out.add(shape, complex_dtype(in[0].dtype));
  out[0].strides = contiguous_strides(shape);
}
void infer_irfft(const RealFftParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  Shape shape = in[0].shape;
  const int64_t m = line_of("irfft", shape);
  check<ShapeError>(p.n > 0 && p.n / 2 + 1 == m,
                    "irfft: {} real numbers come of {} complex ones, got {}", p.n, p.n / 2 + 1, m);
  shape[shape.rank() - 1] = p.n;
  out.add(shape, real_dtype(in[0].dtype));
  out[0].strides = contiguous_strides(shape);
}

Tensors vjp_fft(const FftParams& p, const VjpArgs& a) {
  return {transform_line(a.grad[0], {.inverse = !p.inverse, .scale = p.scale})};
}
Tensors vjp_rfft(const RealFftParams& p, const VjpArgs& a) {
  const int64_t n = a.in_specs[0].shape.back();
  return {half_to_line(weighted_half(a.grad[0], n, 0.5), {.n = n, .scale = p.scale})};
}
Tensors vjp_irfft(const RealFftParams& p, const VjpArgs& a) {
  return {weighted_half(line_to_half(a.grad[0], {.scale = p.scale}), p.n, 2)};
}

double flops_of(int64_t n, int64_t numbers) {
  return 5.0 * static_cast<double>(numbers) *
         std::log2(static_cast<double>(std::max<int64_t>(n, 2)));
}
double fft_flops(const FftParams&, const Specs& s) {
  return flops_of(s.in[0].shape.back(), s.in[0].numel());
}
double rfft_flops(const RealFftParams&, const Specs& s) {
  const TensorSpec& line = is_complex(s.in[0].dtype) ? s.out[0] : s.in[0];
  return flops_of(line.shape.back(), line.numel()) / 2;
}

}  // namespace

Tensor weighted_half(const Tensor& half, int64_t n, double twice) {
  const int64_t m = half.shape().back();
  const TensorOptions options{real_dtype(half.dtype()), half.device()};
  Tensors parts = {ones({1}, options)};
  const int64_t middle = m - (n % 2 == 0 && n > 1 ? 2 : 1);
  if (middle > 0) parts.push_back(full({middle}, twice, options));
  if (middle + 1 < m) parts.push_back(ones({1}, options));
  return mul(half, concat(parts, 0));
}

const OpDef& fft_op() {
  static OpDef def = Op<FftParams>("fft")
                         .inputs({"x"})
                         .dtypes(kComplexDTypes)
                         .infer<infer_fft>()
                         .vjp<vjp_fft>({})
                         .flops<fft_flops>()
                         .cpu({fft_stockham_kernel(), fft_reference_kernel()})
                         .build();
  return def;
}
const OpDef& rfft_op() {
  static OpDef def = Op<RealFftParams>("rfft")
                         .inputs({"x"})
                         .dtypes(kParts)
                         .infer<infer_rfft>()
                         .vjp<vjp_rfft>({})
                         .flops<rfft_flops>()
                         .cpu({rfft_stockham_kernel(), rfft_reference_kernel()})
                         .build();
  return def;
}
const OpDef& irfft_op() {
  static OpDef def = Op<RealFftParams>("irfft")
                         .inputs({"x"})
                         .dtypes(kComplexDTypes)
                         .infer<infer_irfft>()
                         .vjp<vjp_irfft>({})
                         .flops<rfft_flops>()
                         .cpu({irfft_stockham_kernel(), irfft_reference_kernel()})
                         .build();
  return def;
}

Tensor transform_line(const Tensor& x, const FftParams& params) {
  return dispatch(fft_op(), params, {x})[0];
}
Tensor line_to_half(const Tensor& x, const RealFftParams& params) {
  return dispatch(rfft_op(), params, {x})[0];
}
Tensor half_to_line(const Tensor& x, const RealFftParams& params) {
  return dispatch(irfft_op(), params, {x})[0];
}

namespace fft {
namespace {

double scale_of(Norm norm, bool inverse, int64_t n) {
  if (norm == Norm::ortho) return 1 / std::sqrt(static_cast<double>(n));
  return inverse == (norm == Norm::backward) ? 1 / static_cast<double>(n) : 1;
}

Tensor last(const Tensor& x, int64_t axis) {
  return axis == x.rank() - 1 ? x : movedim(x, {axis}, {-1});
}
Tensor back(const Tensor& x, int64_t axis) {
  return axis == x.rank() - 1 ? x : movedim(x, {-1}, {axis});
}

/// The axis with n elements, cut or filled with zeros.
Tensor sized(const char* op, const Tensor& x, int64_t axis, int64_t n) {
  check<ShapeError>(n >= 1, "{}: expected at least one element to transform, got n = {}", op, n);
  const int64_t now = x.shape()[static_cast<int>(axis)];
  if (n == now) return x;
  if (n < now) return narrow(x, axis, 0, n);
  PadParams params{Dims::filled(x.rank(), 0), Dims::filled(x.rank(), 0)};
  params.after[static_cast<int>(axis)] = n - now;
  return pad(x, params);
}

/// f16 and bf16 are transformed in f32, integers too.
Tensor as_real(const char* op, const Tensor& x) {
  check<DTypeError>(!is_complex(x.dtype()), "{}: expected real numbers, got {}", op, x.dtype());
  return x.dtype() == DType::f64 ? x : cast(x, DType::f32);
}
Tensor as_complex(const Tensor& x) {
  return is_complex(x.dtype()) ? x : cast(x, complex_dtype(x.dtype()));
}

int64_t axis_of(const char* op, const Tensor& x, int64_t axis) {
  return normalize_axis(axis, x.rank(), op);
}

Tensor whole(const char* op, const Tensor& x, Size n, int64_t axis, Norm norm, bool inverse) {
  const int64_t at = axis_of(op, x, axis);
  const int64_t size = n.value_or(x.shape()[static_cast<int>(at)]);
  const Tensor line = last(sized(op, as_complex(x), at, size), at);
  return back(transform_line(line, {inverse, scale_of(norm, inverse, size)}), at);
}
Tensor to_half(const char* op, const Tensor& x, Size n, int64_t axis,
               double (*scale)(Norm, int64_t), Norm norm) {
  const int64_t at = axis_of(op, x, axis);
  const int64_t size = n.value_or(x.shape()[static_cast<int>(at)]);
  const Tensor line = last(sized(op, as_real(op, x), at, size), at);
  return back(line_to_half(line, {.scale = scale(norm, size)}), at);
}
Tensor from_half(const char* op, const Tensor& x, Size n, int64_t axis,
                 double (*scale)(Norm, int64_t), Norm norm) {
  const int64_t at = axis_of(op, x, axis);
  const int64_t size = n.value_or(2 * (x.shape()[static_cast<int>(at)] - 1));
  check<ShapeError>(size >= 1, "{}: expected at least one real number, got n = {}", op, size);
  const Tensor half = last(sized(op, as_complex(x), at, size / 2 + 1), at);
  return back(half_to_line(half, {.n = size, .scale = scale(norm, size)}), at);
}

double forward_scale(Norm norm, int64_t n) { return scale_of(norm, false, n); }
double inverse_scale(Norm norm, int64_t n) { return scale_of(norm, true, n); }

/// The axes of an n-d transform and their sizes: those named, the last ones of as many as there are
/// sizes, or all.
struct Extent {
  Dims axes;
  Dims sizes;
};
Extent extent_of(const char* op, const Tensor& x, const Dims& sizes, const Dims& axes) {
  Extent e;
  check<ShapeError>(sizes.empty() || axes.empty() || sizes.rank() == axes.rank(),
                    "{}: {} sizes for {} axes", op, sizes.rank(), axes.rank());
  check<ShapeError>(sizes.rank() <= x.rank(), "{}: {} sizes for a tensor of shape {}", op,
                    sizes.rank(), x.shape());
  const int named = !axes.empty() ? axes.rank() : !sizes.empty() ? sizes.rank() : x.rank();
  for (int i = 0; i < named; ++i) {
    const int64_t axis = axes.empty() ? x.rank() - named + i : axis_of(op, x, axes[i]);
    check<ShapeError>(!e.axes.contains(axis), "{}: axes {} name one twice", op, axes);
    e.axes.push_back(axis);
    const int64_t now = x.shape()[static_cast<int>(axis)];
    e.sizes.push_back(sizes.empty() || sizes[i] == -1 ? now : sizes[i]);
  }
  return e;
}

/// Whether one call transforms them all, which are the last ones.
bool at_once(const Tensor& x, const Extent& e) {
  constexpr int kMost = 3;  // that cuFFT takes
  const int count = e.axes.rank();
  if (count < 2 || (x.device().is_cuda() && count > kMost)) return false;
  return e.axes.back() == x.rank() - 1 &&
         std::all_of(e.axes.begin(), e.axes.end(),
                     [&](int64_t axis) { return axis >= x.rank() - count; });
}
Tensor block(const char* op, Tensor x, const Extent& e, Norm norm, bool inverse) {
  for (int i = 0; i < e.axes.rank(); ++i) x = sized(op, x, e.axes[i], e.sizes[i]);
  return transform_block(x, {e.axes.rank(), inverse, scale_of(norm, inverse, numel(e.sizes))});
}

Tensor over_axes(const char* op, Tensor x, const Extent& e, int count, Norm norm, bool inverse) {
  for (int i = count - 1; i >= 0; --i) x = whole(op, x, e.sizes[i], e.axes[i], norm, inverse);
  return x;
}

}  // namespace

Tensor fft(const Tensor& x, Size n, int64_t axis, Norm norm) {
  return whole("fft", x, n, axis, norm, false);
}
Tensor ifft(const Tensor& x, Size n, int64_t axis, Norm norm) {
  return whole("ifft", x, n, axis, norm, true);
}
Tensor rfft(const Tensor& x, Size n, int64_t axis, Norm norm) {
  return to_half("rfft", x, n, axis, forward_scale, norm);
}
Tensor irfft(const Tensor& x, Size n, int64_t axis, Norm norm) {
  return from_half("irfft", x, n, axis, inverse_scale, norm);
}
Tensor hfft(const Tensor& x, Size n, int64_t axis, Norm norm) {
  return from_half("hfft", conj(as_complex(x)), n, axis, forward_scale, norm);
}
Tensor ihfft(const Tensor& x, Size n, int64_t axis, Norm norm) {
  return conj(to_half("ihfft", x, n, axis, inverse_scale, norm));
}

Tensor fftn(const Tensor& x, const Dims& sizes, const Dims& axes, Norm norm) {
  const Extent e = extent_of("fftn", x, sizes, axes);
  if (at_once(x, e)) return block("fftn", as_complex(x), e, norm, false);
  return over_axes("fftn", as_complex(x), e, e.axes.rank(), norm, false);
}
Tensor ifftn(const Tensor& x, const Dims& sizes, const Dims& axes, Norm norm) {
  const Extent e = extent_of("ifftn", x, sizes, axes);
  if (at_once(x, e)) return block("ifftn", as_complex(x), e, norm, true);
  return over_axes("ifftn", as_complex(x), e, e.axes.rank(), norm, true);
}
Tensor rfftn(const Tensor& x, const Dims& sizes, const Dims& axes, Norm norm) {
  const Extent e = extent_of("rfftn", x, sizes, axes);
  check<ShapeError>(!e.axes.empty(), "rfftn: expected at least one axis");
  if (at_once(x, e)) return block("rfftn", as_real("rfftn", x), e, norm, false);
  const Tensor half = rfft(x, e.sizes.back(), e.axes.back(), norm);
  return over_axes("rfftn", half, e, e.axes.rank() - 1, norm, false);
}
Tensor irfftn(const Tensor& x, const Dims& sizes, const Dims& axes, Norm norm) {
  const Extent e = extent_of("irfftn", x, sizes, axes);
  check<ShapeError>(!e.axes.empty(), "irfftn: expected at least one axis");
  const Tensor half = over_axes("irfftn", as_complex(x), e, e.axes.rank() - 1, norm, true);
  const bool given = !sizes.empty() && sizes.back() != -1;
  return irfft(half, given ? Size(sizes.back()) : Size(), e.axes.back(), norm);
}

}  // namespace fft
}  // namespace mica
