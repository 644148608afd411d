// Exponentials, logarithms, roots, and what is made of them.
#include <numbers>

#include "mica/op/composition.h"
#include "mica/op/function.h"
#include "mica/ops/complex/complex.h"
#include "mica/ops/complex/cpu.h"
#include "mica/ops/elementwise/calls.h"
#include "mica/ops/elementwise/cpu.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/math/function_op.h"
#include "mica/ops/math/functors.h"
#include "mica/ops/math/math_ops.h"

namespace mica {
namespace {

using namespace elementwise;

Tensor grad_exp(const VjpArgs& a) { return mul(a.grad[0], conj(a.out[0])); }
Tensor grad_exp2(const VjpArgs& a) { return mul(a.grad[0], mul(a.out[0], std::numbers::ln2)); }
Tensor grad_expm1(const VjpArgs& a) { return mul(a.grad[0], conj(add(a.out[0], 1.0))); }
Tensor grad_log(const VjpArgs& a) { return div(a.grad[0], conj(a.in[0])); }
Tensor grad_log2(const VjpArgs& a) { return div(a.grad[0], mul(a.in[0], std::numbers::ln2)); }
Tensor grad_log10(const VjpArgs& a) {
  return div(a.grad[0], mul(conj(a.in[0]), std::numbers::ln10));
}
Tensor grad_log1p(const VjpArgs& a) { return div(a.grad[0], conj(add(a.in[0], 1.0))); }
Tensor grad_sqrt(const VjpArgs& a) { return mul(div(a.grad[0], conj(a.out[0])), 0.5); }
Tensor grad_erf(const VjpArgs& a) {
  return mul(a.grad[0], mul(exp(neg(square(a.in[0]))), 2 * std::numbers::inv_sqrtpi));
}
Tensor grad_erfc(const VjpArgs& a) {
  return mul(a.grad[0], mul(exp(neg(square(a.in[0]))), -2 * std::numbers::inv_sqrtpi));
}
Tensor grad_rsqrt(const VjpArgs& a) {
  return mul(mul(a.grad[0], -0.5), mul(a.out[0], square(a.out[0])));
}
Tensor grad_reciprocal(const VjpArgs& a) { return neg(mul(a.grad[0], conj(square(a.out[0])))); }
Tensor grad_sigmoid(const VjpArgs& a) { return sigmoid_grad(a.grad[0], a.out[0]); }

Tensors sigmoid_grad_parts(const NoParams&, std::span<const Tensor> in) {
  return {mul(in[0], mul(in[1], sub(1.0, in[1])))};
}

}  // namespace

const OpDef& exp_op() {
  static OpDef def =
      function<functor::Exp, grad_exp, complex_functor::Exp>("exp", {.out = {0}}, Precision::f32);
  return def;
}
const OpDef& exp2_op() {
  static OpDef def = function<functor::Exp2, grad_exp2>("exp2", {.out = {0}}, Precision::f32);
  return def;
}
const OpDef& expm1_op() {
  static OpDef def = function<functor::Expm1, grad_expm1, complex_functor::Expm1>(
      "expm1", {.out = {0}}, Precision::f32);
  return def;
}
const OpDef& log_op() {
  static OpDef def =
      function<functor::Log, grad_log, complex_functor::Log>("log", {.in = {0}}, Precision::f32);
  return def;
}
const OpDef& log2_op() {
  static OpDef def = function<functor::Log2, grad_log2>("log2", {.in = {0}}, Precision::f32);
  return def;
}
const OpDef& log10_op() {
  static OpDef def = function<functor::Log10, grad_log10, complex_functor::Log10>(
      "log10", {.in = {0}}, Precision::f32);
  return def;
}
const OpDef& log1p_op() {
  static OpDef def = function<functor::Log1p, grad_log1p, complex_functor::Log1p>(
      "log1p", {.in = {0}}, Precision::f32);
  return def;
}
const OpDef& sqrt_op() {
  static OpDef def =
      function<functor::Sqrt, grad_sqrt, complex_functor::Sqrt>("sqrt", {.out = {0}});
  return def;
}
const OpDef& erf_op() {
  static OpDef def = function<functor::Erf, grad_erf>("erf", {.in = {0}});
  return def;
}
const OpDef& erfc_op() {
  static OpDef def = function<functor::Erfc, grad_erfc>("erfc", {.in = {0}});
  return def;
}
const OpDef& rsqrt_op() {
  static OpDef def = function<functor::Rsqrt, grad_rsqrt>("rsqrt", {.out = {0}}, Precision::f32);
  return def;
}
const OpDef& reciprocal_op() {
  static OpDef def = function<functor::Reciprocal, grad_reciprocal, complex_functor::Reciprocal>(
      "reciprocal", {.out = {0}}, Precision::f32);
  return def;
}
const OpDef& sigmoid_op() {
  static OpDef def = function<functor::Sigmoid, grad_sigmoid>("sigmoid", {.out = {0}});
  return def;
}
const OpDef& sigmoid_grad_op() {
  static OpDef def = elementwise_op<functor::SigmoidGrad, 2>("sigmoid_grad")
                         .vjp<vjp_by<sigmoid_grad_parts, NoParams>>({.in = {0, 1}})
                         .build();
  return def;
}

Tensor exp(const Tensor& x) { return dispatch(exp_op(), NoParams{}, {as_float(x)})[0]; }
Tensor exp2(const Tensor& x) {
  if (is_complex(x.dtype())) return exp(mul(x, std::numbers::ln2));
  return dispatch(exp2_op(), NoParams{}, {as_float(x)})[0];
}
Tensor expm1(const Tensor& x) { return dispatch(expm1_op(), NoParams{}, {as_float(x)})[0]; }
Tensor log(const Tensor& x) { return dispatch(log_op(), NoParams{}, {as_float(x)})[0]; }
Tensor log2(const Tensor& x) {
  if (is_complex(x.dtype())) return div(log(x), std::numbers::ln2);
  return dispatch(log2_op(), NoParams{}, {as_float(x)})[0];
}
Tensor log10(const Tensor& x) { return dispatch(log10_op(), NoParams{}, {as_float(x)})[0]; }
Tensor log1p(const Tensor& x) { return dispatch(log1p_op(), NoParams{}, {as_float(x)})[0]; }
Tensor sqrt(const Tensor& x) { return dispatch(sqrt_op(), NoParams{}, {as_float(x)})[0]; }
Tensor erf(const Tensor& x) { return dispatch(erf_op(), NoParams{}, {as_float(x)})[0]; }
Tensor erfc(const Tensor& x) { return dispatch(erfc_op(), NoParams{}, {as_float(x)})[0]; }
Tensor rsqrt(const Tensor& x) {
  if (is_complex(x.dtype())) return reciprocal(sqrt(x));
  return dispatch(rsqrt_op(), NoParams{}, {as_float(x)})[0];
}
Tensor reciprocal(const Tensor& x) {
  return dispatch(reciprocal_op(), NoParams{}, {as_float(x)})[0];
}
Tensor sigmoid(const Tensor& x) {
  if (is_complex(x.dtype())) return reciprocal(add(exp(neg(x)), 1.0));
  return dispatch(sigmoid_op(), NoParams{}, {as_float(x)})[0];
}
Tensor sigmoid_grad(const Tensor& dy, const Tensor& y) {
  return dispatch(sigmoid_grad_op(), NoParams{}, {dy, y})[0];
}

Functions exponential_functions() {
  return {
      unary("exp", exp, "e to the power of each element; integers give float32.", kInPlaceToo),
      unary("exp2", exp2, "2 to the power of each element; integers give float32."),
      unary("expm1", expm1, "exp(input) - 1, exact near 0 too; integers give float32."),
      unary("log", log,
            "The natural logarithm of each element, NaN below 0; integers give float32.",
            kInPlaceToo),
      unary("log2", log2,
            "The logarithm to base 2 of each element, NaN below 0; integers give float32."),
      unary("log10", log10,
            "The logarithm to base 10 of each element, NaN below 0; integers give float32."),
      unary("log1p", log1p,
            "log(1 + input), exact near 0 too; NaN below -1. Integers give float32."),
      unary("sqrt", sqrt, "The square root of each element, NaN below 0; integers give float32.",
            kInPlaceToo),
      unary("erf", erf, "The error function of each element; integers give float32.", kInPlaceToo),
      unary("erfc", erfc,
            "1 - erf(input) of each element, with all its digits where that is small; integers "
            "give float32.",
            kInPlaceToo),
      unary("rsqrt", rsqrt, "1 / sqrt(input) of each element, NaN below 0; integers give float32.",
            kInPlaceToo),
      unary("reciprocal", reciprocal, "1 / input of each element; integers give float32.",
            kInPlaceToo),
      unary("sigmoid", sigmoid, "1 / (1 + exp(-input)) of each element; integers give float32.",
            kEverywhere),
  };
}

}  // namespace mica
