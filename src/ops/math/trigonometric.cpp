// Trigonometric and hyperbolic functions and their inverses.
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

Tensor grad_sin(const VjpArgs& a) { return mul(a.grad[0], conj(cos(a.in[0]))); }
Tensor grad_cos(const VjpArgs& a) { return neg(mul(a.grad[0], conj(sin(a.in[0])))); }
Tensor grad_tan(const VjpArgs& a) { return mul(a.grad[0], conj(add(square(a.out[0]), 1.0))); }
Tensor grad_asin(const VjpArgs& a) {
  return mul(a.grad[0], conj(rsqrt(sub(1.0, square(a.in[0])))));
}
Tensor grad_acos(const VjpArgs& a) { return neg(grad_asin(a)); }
Tensor grad_atan(const VjpArgs& a) { return div(a.grad[0], conj(add(square(a.in[0]), 1.0))); }
Tensor grad_sinh(const VjpArgs& a) { return mul(a.grad[0], conj(cosh(a.in[0]))); }
Tensor grad_cosh(const VjpArgs& a) { return mul(a.grad[0], conj(sinh(a.in[0]))); }
Tensor grad_asinh(const VjpArgs& a) {
  return mul(a.grad[0], conj(rsqrt(add(square(a.in[0]), 1.0))));
}
/// Of a complex number two roots: that of the square has the wrong sign on the left.
Tensor grad_acosh(const VjpArgs& a) {
  const Tensor& x = a.in[0];
  if (!is_complex(x.dtype())) return mul(a.grad[0], rsqrt(sub(square(x), 1.0)));
  return mul(a.grad[0], conj(mul(rsqrt(sub(x, 1.0)), rsqrt(add(x, 1.0)))));
}
Tensor grad_atanh(const VjpArgs& a) { return div(a.grad[0], conj(sub(1.0, square(a.in[0])))); }
Tensor grad_tanh(const VjpArgs& a) {
  const Tensor& y = a.out[0];
  if (!is_complex(y.dtype())) return tanh_grad(a.grad[0], y);
  return mul(a.grad[0], conj(sub(1.0, square(y))));
}

Tensors tanh_grad_parts(const NoParams&, std::span<const Tensor> in) {
  return {mul(in[0], sub(1.0, square(in[1])))};
}

}  // namespace

const OpDef& sin_op() {
  static OpDef def = function<functor::Sin, grad_sin, complex_functor::Sin>("sin", {.in = {0}});
  return def;
}
const OpDef& cos_op() {
  static OpDef def = function<functor::Cos, grad_cos, complex_functor::Cos>("cos", {.in = {0}});
  return def;
}
const OpDef& tan_op() {
  static OpDef def =
      function<functor::Tan, grad_tan, complex_functor::Tan>("tan", {.out = {0}}, Precision::f32);
  return def;
}
const OpDef& asin_op() {
  static OpDef def = function<functor::Asin, grad_asin, complex_functor::Asin>("asin", {.in = {0}},
                                                                               Precision::f32);
  return def;
}
const OpDef& acos_op() {
  static OpDef def = function<functor::Acos, grad_acos, complex_functor::Acos>("acos", {.in = {0}},
                                                                               Precision::f32);
  return def;
}
const OpDef& atan_op() {
  static OpDef def = function<functor::Atan, grad_atan, complex_functor::Atan>("atan", {.in = {0}});
  return def;
}
const OpDef& sinh_op() {
  static OpDef def = function<functor::Sinh, grad_sinh, complex_functor::Sinh>("sinh", {.in = {0}},
                                                                               Precision::f32);
  return def;
}
const OpDef& cosh_op() {
  static OpDef def = function<functor::Cosh, grad_cosh, complex_functor::Cosh>("cosh", {.in = {0}},
                                                                               Precision::f32);
  return def;
}
const OpDef& asinh_op() {
  static OpDef def =
      function<functor::Asinh, grad_asinh, complex_functor::Asinh>("asinh", {.in = {0}});
  return def;
}
const OpDef& acosh_op() {
  static OpDef def =
      function<functor::Acosh, grad_acosh, complex_functor::Acosh>("acosh", {.in = {0}});
  return def;
}
const OpDef& atanh_op() {
  static OpDef def =
      function<functor::Atanh, grad_atanh, complex_functor::Atanh>("atanh", {.in = {0}});
  return def;
}
const OpDef& tanh_op() {
  static OpDef def =
      function<functor::Tanh, grad_tanh, complex_functor::Tanh>("tanh", {.out = {0}});
  return def;
}
const OpDef& tanh_grad_op() {
  static OpDef def = elementwise_op<functor::TanhGrad, 2>("tanh_grad")
                         .vjp<vjp_by<tanh_grad_parts, NoParams>>({.in = {0, 1}})
                         .build();
  return def;
}

Tensor sin(const Tensor& x) { return dispatch(sin_op(), NoParams{}, {as_float(x)})[0]; }
Tensor cos(const Tensor& x) { return dispatch(cos_op(), NoParams{}, {as_float(x)})[0]; }
Tensor tan(const Tensor& x) { return dispatch(tan_op(), NoParams{}, {as_float(x)})[0]; }
Tensor asin(const Tensor& x) { return dispatch(asin_op(), NoParams{}, {as_float(x)})[0]; }
Tensor acos(const Tensor& x) { return dispatch(acos_op(), NoParams{}, {as_float(x)})[0]; }
Tensor atan(const Tensor& x) { return dispatch(atan_op(), NoParams{}, {as_float(x)})[0]; }
Tensor sinh(const Tensor& x) { return dispatch(sinh_op(), NoParams{}, {as_float(x)})[0]; }
Tensor cosh(const Tensor& x) { return dispatch(cosh_op(), NoParams{}, {as_float(x)})[0]; }
Tensor asinh(const Tensor& x) { return dispatch(asinh_op(), NoParams{}, {as_float(x)})[0]; }
Tensor acosh(const Tensor& x) { return dispatch(acosh_op(), NoParams{}, {as_float(x)})[0]; }
Tensor atanh(const Tensor& x) { return dispatch(atanh_op(), NoParams{}, {as_float(x)})[0]; }
Tensor tanh(const Tensor& x) { return dispatch(tanh_op(), NoParams{}, {as_float(x)})[0]; }
Tensor tanh_grad(const Tensor& dy, const Tensor& y) {
  return dispatch(tanh_grad_op(), NoParams{}, {dy, y})[0];
}

Functions trigonometric_functions() {
  return {
      unary("sin", sin, "The sine of each element, in radians; integers give float32.",
            kInPlaceToo),
      unary("cos", cos, "The cosine of each element, in radians; integers give float32.",
            kInPlaceToo),
      unary("tan", tan, "The tangent of each element, in radians; integers give float32."),
      unary("asin", asin,
            "The angle in [-pi/2, pi/2] whose sine each element is, NaN outside [-1, 1]; integers "
            "give float32."),
      unary("acos", acos,
            "The angle in [0, pi] whose cosine each element is, NaN outside [-1, 1]; integers give "
            "float32."),
      unary("atan", atan,
            "The angle in [-pi/2, pi/2] whose tangent each element is; integers give float32."),
      unary("sinh", sinh, "The hyperbolic sine of each element; integers give float32."),
      unary("cosh", cosh, "The hyperbolic cosine of each element; integers give float32."),
      unary("asinh", asinh,
            "The number whose hyperbolic sine each element is; integers give float32."),
      unary("acosh", acosh,
            "The number >= 0 whose hyperbolic cosine each element is, NaN below 1; integers give "
            "float32."),
      unary("atanh", atanh,
            "The number whose hyperbolic tangent each element is, NaN outside [-1, 1]; integers "
            "give float32."),
      unary("tanh", tanh, "The hyperbolic tangent of each element; integers give float32.",
            kEverywhere),
  };
}

}  // namespace mica
