#include "mica/ops/elementwise/compositions.h"

#include <cmath>
#include <limits>

#include "mica/op/autocast.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/elementwise/functions.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// From remainders of |a|, which are exact; `b` is not negative.
template <class B>
Tensor with_sign_of(const Tensor& a, const B& b) {
  return where(lt(a, 0), neg(remainder(neg(a), b)), remainder(a, b));
}
/// Of integers, where |a| may not be one: the remainder, which has b's sign, less b where that is
/// not a's.
template <class B>
Tensor integer_fmod(const Tensor& a, const B& b, const Tensor& b_is_negative) {
  const Tensor r = remainder(a, b);
  const Tensor other_sign = logical_xor(lt(a, 0), b_is_negative);
  return where(logical_and(ne(r, 0), other_sign), sub(r, b), r);
}

}  // namespace

Tensor fmod(const Tensor& a, const Tensor& b) {
  broadcast_shapes(a.shape(), b.shape(), "fmod");
  if (is_floating(promote(a.dtype(), b.dtype()))) return with_sign_of(a, abs(b));
  return integer_fmod(a, b, lt(b, 0));
}
Tensor fmod(const Tensor& a, Number b) {
  if (is_floating(a.dtype()) || b.is_floating()) return with_sign_of(a, std::abs(b.to_double()));
  const bool negative = b.kind() == Number::Kind::integer && b.as<int64_t>() < 0;
  return integer_fmod(a, b, full({}, negative, {DType::boolean, a.device()}));
}

Tensor copysign(const Tensor& a, const Tensor& b) {
  broadcast_shapes(a.shape(), b.shape(), "copysign");
  const DType dtype = promote(a.dtype(), b.dtype());
  const Tensor size = abs(cast(a, is_floating(dtype) ? dtype : DType::f32));
  return where(signbit(b), neg(size), size);
}
Tensor copysign(const Tensor& a, Number b) {
  const Tensor size = abs(is_floating(a.dtype()) ? a : cast(a, DType::f32));
  return std::signbit(b.to_double()) ? neg(size) : size;
}

Tensor hypot(const Tensor& a, const Tensor& b) {
  broadcast_shapes(a.shape(), b.shape(), "hypot");
  // The result does not depend on the scale, so neither does its gradient.
  const Tensor larger = maximum(abs(a.detach()), abs(b.detach()));
  const Tensor usable = logical_and(gt(larger, 0.0), lt(larger, kInfinity));
  const Tensor scale = where(usable, larger, 1.0);
  const Tensor result = mul(scale, sqrt(add(square(div(a, scale)), square(div(b, scale)))));
  return where(logical_or(isinf(a), isinf(b)), kInfinity, result);  // beside NaN too
}

Tensor logaddexp(const Tensor& a, const Tensor& b) {
  const ComputedIn precision(Precision::f32);
  broadcast_shapes(a.shape(), b.shape(), "logaddexp");
  // Equal infinities have no difference; of all equals it is 0.
  const Tensor difference = where(eq(a, b), 0.0, sub(a, b));
  return add(maximum(a, b), log1p(exp(neg(abs(difference)))));
}

Tensor xlogy(const Tensor& a, const Tensor& b) {
  const ComputedIn precision(Precision::f32);
  // With 1 for b where the logarithm is infinite or NaN, values and gradients there are 0.
  const Tensor outside = logical_or(le(b, 0.0), eq(b, kInfinity));
  return mul(a, log(where(logical_and(eq(a, 0.0), outside), 1.0, b)));
}

Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, Number value) {
  const Tensor product = mul(a, b);
  return add(x, value.to_double() == 1 ? product : mul(product, value));
}

Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, Number value) {
  const Tensor quotient = div(a, b);
  return add(x, value.to_double() == 1 ? quotient : mul(quotient, value));
}

Functions elementwise_composition_functions() {
  return {
      elementwise::arithmetic<fmod, fmod>(
          "fmod",
          "What remains of input / other, with input's sign; shapes broadcast and dtypes promote. "
          "Integers by zero raise.",
          kInPlaceToo),
      elementwise::arithmetic<copysign, copysign>(
          "copysign",
          "input with the sign of other, also where that is -0.0 or NaN; shapes broadcast and "
          "dtypes promote, integers give float32.",
          kInPlaceToo),
      binary("hypot", hypot,
             "sqrt(input^2 + other^2) without overflow in between; shapes broadcast, integers give "
             "float32.",
             Precision::widest),
      binary("logaddexp", logaddexp,
             "log(exp(input) + exp(other)) without overflow in between; shapes broadcast and "
             "dtypes promote. Of a floating dtype.",
             Precision::f32),
      binary("xlogy", xlogy,
             "input * log(other), and 0 where input is 0 and other not NaN; shapes broadcast and "
             "dtypes promote, integers give float32.",
             Precision::f32),
      {.name = "addcmul",
       .doc = "input + value * tensor1 * tensor2; shapes broadcast and dtypes promote.",
       .signatures = {{addcmul, {"input", "tensor1", "tensor2", kKeywordOnly, {"value", 1}}}},
       .offer = kInPlaceToo,
       .precision = Precision::widest},
      {.name = "addcdiv",
       .doc = "input + value * tensor1 / tensor2; shapes broadcast and dtypes promote.",
       .signatures = {{addcdiv, {"input", "tensor1", "tensor2", kKeywordOnly, {"value", 1}}}},
       .offer = kInPlaceToo,
       .precision = Precision::widest},
  };
}

}  // namespace mica
