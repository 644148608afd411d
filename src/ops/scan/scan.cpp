#include "mica/ops/scan/scan.h"

#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/op/function.h"
#include "mica/ops/complex/complex.h"
#include "mica/ops/complex/products.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/reduce/axes.h"
#include "mica/ops/scan/cpu.h"
#include "mica/ops/view/leading_axis.h"
namespace mica {
namespace {

void infer(const ScanParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check<IndexError>(p.axis >= 0 && p.axis < in[0].rank(), "{}: axis must be in [0, {}), got {}",
                    out.op(), in[0].rank(), p.axis);
  out.add(in[0].shape, total_dtype(in[0].dtype));
}

ScanParams exclusive(ScanParams p) {
  p.exclusive = true;
  return p;
}
ScanParams reversed(ScanParams p) {
  p.reverse = !p.reverse;
  return p;
}

Tensors vjp_cumsum(const ScanParams& p, const VjpArgs& a) {
  return {cumsum(a.grad[0], reversed(p))};
}

/// The cotangent w of h in h(i) = a(i) h(i-1) + b(i), from the cotangent u of the scan's result:
/// w(i) = u(i) + a(i+1) w(i+1), or u(i+1) in place of u(i) where the scan is exclusive.
Tensor cotangent_of_steps(const ScanParams& p, const Tensor& a, const Tensor& u) {
  const ScanParams back = exclusive(reversed(p));
  return p.exclusive ? linear_scan(a, u, back) : add(u, linear_scan(a, mul(a, u), back));
}

/// A cumprod is the recurrence p(i) = x(i) p(i-1). Nothing is divided by x, which may be 0.
Tensors vjp_cumprod(const ScanParams& p, const VjpArgs& a) {
  const Tensor& x = a.in[0];
  return {mul(cumprod(x, exclusive(p)), cotangent_of_steps(p, x, a.grad[0]))};
}

void infer_linear(const ScanParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check<DTypeError>(in[1].dtype == in[0].dtype,
                    "linear_scan: a and b must have one dtype, got {} and {}", in[0].dtype,
                    in[1].dtype);
  check<ShapeError>(in[1].shape == in[0].shape,
                    "linear_scan: a and b must have one shape, got {} and {}", in[0].shape,
                    in[1].shape);
  infer(p, in, out);
}

Tensors vjp_linear(const ScanParams& p, const VjpArgs& a) {
  const Tensor w = cotangent_of_steps(p, a.in[0], a.grad[0]);
  Tensor da;
  if (a.needs(0)) da = mul(w, linear_scan(a.in[0], a.in[1], exclusive(p)));
  return {da, w};
}

ScanParams checked(const char* op, const Tensor& x, ScanParams p) {
  check<ShapeError>(x.rank() > 0, "{}: expected at least one dimension", op);
  p.axis = normalize_axis(p.axis, x.rank(), op);
  return p;
}

}  // namespace

const OpDef& cumsum_op() {
  static OpDef def = Op<ScanParams>("cumsum")
                         .inputs({"x"})
                         .precision(Precision::f32)
                         .infer<infer>()
                         .vjp<vjp_cumsum>({})
                         .cpu(cumsum_cpu_kernels())
                         .build();
  return def;
}

const OpDef& cumprod_op() {
  static OpDef def = Op<ScanParams>("cumprod")
                         .inputs({"x"})
                         .precision(Precision::f32)
                         .infer<infer>()
                         .vjp<vjp_cumprod>({.in = {0}})
                         .cpu(cumprod_cpu_kernels())
                         .build();
  return def;
}

const OpDef& linear_scan_op() {
  static OpDef def = Op<ScanParams>("linear_scan")
                         .inputs({"a", "b"})
                         .dtypes(kFloatDTypes)
                         .infer<infer_linear>()
                         .vjp<vjp_linear>({.in = {0, {1, {0}}}})
                         .cpu(linear_scan_cpu_kernels())
                         .build();
  return def;
}

Tensor cumsum(const Tensor& x, const ScanParams& params) {
  if (x.rank() == 0)
    return with_leading_axis(x, 1, [&](const Tensor& v) { return cumsum(v, params); });
  const ScanParams p = checked("cumsum", x, params);
  if (!is_complex(x.dtype())) return dispatch(cumsum_op(), p, {x})[0];
  return as_pairs(x, [&](const Tensor& pairs) { return cumsum(pairs, p); });
}

Tensor cumprod(const Tensor& x, const ScanParams& params) {
  if (x.rank() == 0)
    return with_leading_axis(x, 1, [&](const Tensor& v) { return cumprod(v, params); });
  const ScanParams p = checked("cumprod", x, params);
  return is_complex(x.dtype()) ? complex_cumprod(x, p) : dispatch(cumprod_op(), p, {x})[0];
}

Tensor linear_scan(const Tensor& a, const Tensor& b, const ScanParams& params) {
  return dispatch(linear_scan_op(), checked("linear_scan", a, params), {a, b})[0];
}

Functions scan_functions() {
  const auto scan = []<Tensor (*f)(const Tensor&, const ScanParams&)>(const char* name,
                                                                      const char* doc) {
    return Function{
        .name = name,
        .doc = doc,
        .signatures = {{[](const Tensor& x, int64_t dim, bool exclusive, bool reverse) {
                          return f(x, {.axis = dim, .exclusive = exclusive, .reverse = reverse});
                        },
                        {"input", "dim", kKeywordOnly, {"exclusive", false}, {"reverse", false}}}}};
  };
  return {
      scan.operator()<cumsum>(
          "cumsum",
          "The sum of all elements along dim up to each one, input's shape. exclusive leaves the "
          "element itself out, reverse begins at the end. Integers and bool give int64."),
      scan.operator()<cumprod>(
          "cumprod",
          "The product of all elements along dim up to each one, input's shape. exclusive leaves "
          "the element itself out, reverse begins at the end. Integers and bool give int64."),
      {.name = "linear_scan",
       .doc = "h[i] = a[i] * h[i - 1] + b[i] along dim, from 0 before the first; a and b have one "
              "shape and floating dtype. exclusive gives h[i - 1], reverse begins at the end.",
       .signatures = {{[](const Tensor& a, const Tensor& b, int64_t dim, bool exclusive,
                          bool reverse) {
                         return linear_scan(
                             a, b, {.axis = dim, .exclusive = exclusive, .reverse = reverse});
                       },
                       {"a", "b", "dim", kKeywordOnly, {"exclusive", false}, {"reverse", false}}}},
       .offer = kModule},
  };
}

}  // namespace mica
