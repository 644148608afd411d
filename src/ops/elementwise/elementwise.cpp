#include "mica/ops/elementwise/elementwise.h"

#include <map>
#include <mutex>

#include "mica/core/fork.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/complex/complex.h"
#include "mica/ops/complex/cpu.h"
#include "mica/ops/elementwise/calls.h"
#include "mica/ops/elementwise/cpu.h"
#include "mica/ops/elementwise/functions.h"
#include "mica/ops/elementwise/functors.h"
#include "mica/ops/elementwise/known_number.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/operators.h"
#include "mica/ops/where/where.h"

namespace mica {
namespace elementwise {
namespace {

/// 0-d tensors of numbers, each made once: a loop that scales by 0.5 must not copy to the device
/// each time.
class Constants {
 public:
  Tensor get(Number value, DType dtype, Device device) {
    const std::lock_guard lock(mutex_);
    if (constants_.size() > kMost) constants_.clear();
    Constant& c = constants_[{element_words(value, dtype), dtype, device.kind, device.index}];
    if (!c.tensor.defined()) c = {held_in(dtype, value), scalar(value, {dtype, device})};
    return c.tensor;
  }

  std::optional<Number> value_of(const Storage* storage) {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, c] : constants_)
      if (c.tensor.storage().get() == storage) return c.value;
    return std::nullopt;
  }

 private:
  static constexpr size_t kMost = 256;
  struct Constant {
    Number value;
    Tensor tensor;
  };
  Mutex mutex_;
  /// By their bits: 0.0 and -0.0 are two.
  std::map<std::tuple<ElementWords, DType, DeviceKind, int>, Constant> constants_;
};

Constants& constants() {
  static auto* const all = new Constants;
  return *all;
}

DType dtype_beside(DType t, Number value) {
  if (is_complex(t)) return t;
  if (value.is_complex()) return complex_dtype(t);
  if (is_floating(t)) return t;
  if (value.is_floating()) return DType::f32;
  if (t != DType::boolean || value.is_bool()) return t;
  return value.kind() == Number::Kind::integer ? DType::i64 : DType::u64;
}

}  // namespace

Tensor number(Number value, const Tensor& like, const char* op) {
  const DType t = dtype_beside(like.dtype(), value);
  check_value(op, value, t);
  return constants().get(value, t, like.device());
}

std::optional<Number> known_number(const Tensor& x) {
  return constants().value_of(x.storage().get());
}

Tensor with_known_number(const Tensor& x) {
  if (x.rank() != 0 || !is_floating(x.dtype()) || x.device().is_null()) return x;
  return constants().get(x.item_number(), x.dtype(), x.device());
}

Tensor call(const OpDef& op, const Tensor& a, const Tensor& b) {
  if (a.dtype() == b.dtype()) return dispatch(op, NoParams{}, {a, b})[0];
  const DType t = promote(a.dtype(), b.dtype());
  return dispatch(op, NoParams{}, {cast(a, t), cast(b, t)})[0];
}

Tensor float_call(const OpDef& op, const Tensor& a, const Tensor& b) {
  const DType t = promote(a.dtype(), b.dtype());
  return is_differentiable(t) ? call(op, a, b) : call(op, cast(a, DType::f32), cast(b, DType::f32));
}

}  // namespace elementwise

namespace {

using namespace elementwise;

Tensors vjp_add(const NoParams&, const VjpArgs& a) {
  return {for_input(a, 0, [&] { return a.grad[0]; }), for_input(a, 1, [&] { return a.grad[0]; })};
}
Tensors vjp_sub(const NoParams&, const VjpArgs& a) {
  return {for_input(a, 0, [&] { return a.grad[0]; }),
          for_input(a, 1, [&] { return neg(a.grad[0]); })};
}
Tensors vjp_mul(const NoParams&, const VjpArgs& a) {
  return {for_input(a, 0, [&] { return mul(a.grad[0], conj(a.in[1])); }),
          for_input(a, 1, [&] { return mul(a.grad[0], conj(a.in[0])); })};
}
Tensors vjp_div(const NoParams&, const VjpArgs& a) {
  const Tensor b = conj(a.in[1]);
  return {for_input(a, 0, [&] { return div(a.grad[0], b); }),
          for_input(a, 1, [&] { return neg(div(mul(a.grad[0], conj(a.out[0])), b)); })};
}
Tensors vjp_remainder(const NoParams&, const VjpArgs& a) {
  return {for_input(a, 0, [&] { return a.grad[0]; }),
          for_input(a, 1, [&] { return neg(mul(a.grad[0], floor_divide(a.in[0], a.in[1]))); })};
}
Tensors vjp_pow(const NoParams&, const VjpArgs& args) {
  const Tensor& a = args.in[0];
  const Tensor& b = args.in[1];
  const Tensor& dy = args.grad[0];
  const auto zero = [&] { return zeros_like(dy); };
  return {for_input(args, 0,
                    [&] {
                      const Tensor slope = conj(mul(b, pow(a, sub(b, 1.0))));
                      return where(eq(b, 0.0), zero(), mul(dy, slope));
                    }),
          for_input(args, 1, [&] {
            // Where a is 0 the power is constant in b.
            const Tensor flat = logical_and(eq(a, 0.0), ge(real(b), 0.0));
            const Tensor base = where(flat, ones_like(a), a);
            return where(flat, zero(), mul(dy, conj(mul(args.out[0], log(base)))));
          })};
}
/// The part of the gradient that goes to the first of two operands: all, half of equals, none.
Tensors choice_vjp(const Tensor& first, const VjpArgs& args) {
  const Tensor& dy = args.grad[0];
  const Tensor same = mul(cast(eq(args.in[0], args.in[1]), dy.dtype()), 0.5);
  const Tensor part = add(cast(first, dy.dtype()), same);
  return {for_input(args, 0, [&] { return mul(dy, part); }),
          for_input(args, 1, [&] { return mul(dy, sub(1.0, part)); })};
}
Tensors vjp_minimum(const NoParams&, const VjpArgs& a) {
  return choice_vjp(lt(a.in[0], a.in[1]), a);
}
Tensors vjp_maximum(const NoParams&, const VjpArgs& a) {
  return choice_vjp(gt(a.in[0], a.in[1]), a);
}
Tensors vjp_atan2(const NoParams&, const VjpArgs& args) {
  const Tensor& y = args.in[0];
  const Tensor& x = args.in[1];
  const Tensor scaled = div(args.grad[0], add(mul(x, x), mul(y, y)));
  return {for_input(args, 0, [&] { return mul(scaled, x); }),
          for_input(args, 1, [&] { return neg(mul(scaled, y)); })};
}
Tensors vjp_lerp(const NoParams&, const VjpArgs& args) {
  const Tensor& dy = args.grad[0];
  const Tensor& weight = args.in[2];
  return {for_input(args, 0, [&] { return mul(dy, sub(1.0, weight)); }),
          for_input(args, 1, [&] { return mul(dy, weight); }),
          for_input(args, 2, [&] { return mul(dy, sub(args.in[1], args.in[0])); })};
}
Tensors vjp_neg(const NoParams&, const VjpArgs& a) { return {neg(a.grad[0])}; }
Tensors vjp_relu(const NoParams&, const VjpArgs& a) { return {relu_grad(a.grad[0], a.out[0])}; }
// The gradient is linear in dy; in y it is zero wherever it exists.
Tensors vjp_relu_grad(const NoParams&, const VjpArgs& a) {
  return {for_input(a, 0, [&] { return relu_grad(a.grad[0], a.in[1]); }), Tensor()};
}

/// A binary op of floats and integers, or of floats alone; `wide` where it computes much.
template <class F, Takes takes, auto vjp, bool wide = false, class Complex = void>
OpDef binary(const char* name, Op<NoParams>::Saves saves, const Algebra& algebra = {},
             Precision precision = Precision::any) {
  Op<NoParams> op = elementwise_op<F, 2, takes, wide>(name);
  op.template vjp<vjp>(saves).algebra(algebra).precision(precision);
  if constexpr (!std::is_void_v<Complex>) op.complex(complex_kernel<Complex, 2>());
  return op.build();
}
/// The same for complex numbers too, which the functor C computes.
template <class F, class C, Takes takes, auto vjp>
OpDef binary_of_any(const char* name, Op<NoParams>::Saves saves, const Algebra& algebra) {
  return binary<F, takes, vjp, false, C>(name, saves, algebra);
}

}  // namespace

const OpDef& add_op() {
  // Of floats only -0 is neutral: -0 + 0 is 0.
  static OpDef def = binary_of_any<functor::Add, complex_functor::Add, Takes::all, vjp_add>(
      "add", {},
      {.commutes = true,
       .left_identity = -0.0,
       .right_identity = -0.0,
       .fold = [](double a, double b) { return a + b; }});
  return def;
}
const OpDef& sub_op() {
  static OpDef def = binary_of_any<functor::Sub, complex_functor::Sub, Takes::all, vjp_sub>(
      "sub", {}, {.right_identity = 0.0, .fold = [](double a, double b) { return a - b; }});
  return def;
}
const OpDef& mul_op() {
  static OpDef def = binary_of_any<functor::Mul, complex_functor::Mul, Takes::all, vjp_mul>(
      "mul", {.in = {{0, {1}}, {1, {0}}}},
      {.commutes = true,
       .left_identity = 1.0,
       .right_identity = 1.0,
       .fold = [](double a, double b) { return a * b; }});
  return def;
}
const OpDef& div_op() {
  static OpDef def = binary_of_any<functor::Div, complex_functor::Div, Takes::floats, vjp_div>(
      "div", {.in = {1}, .out = {{0, {1}}}},
      {.right_identity = 1.0, .fold = [](double a, double b) { return a / b; }});
  return def;
}
const OpDef& floor_divide_op() {
  static OpDef def =
      binary<functor::FloorDivide, Takes::all, zero_vjp<NoParams>>("floor_divide", {});
  return def;
}
const OpDef& remainder_op() {
  static OpDef def = binary<functor::Remainder, Takes::all, vjp_remainder>(
      "remainder", {.in = {{0, {1}}, {1, {1}}}});
  return def;
}
const OpDef& pow_op() {
  static OpDef def = binary<functor::Pow, Takes::all, vjp_pow, true, complex_functor::Pow>(
      "pow", {.in = {0, 1}, .out = {{0, {1}}}}, {}, Precision::f32);
  return def;
}
const OpDef& minimum_op() {
  static OpDef def = binary<functor::Minimum, Takes::all, vjp_minimum>("minimum", {.in = {0, 1}});
  return def;
}
const OpDef& maximum_op() {
  static OpDef def = binary<functor::Maximum, Takes::all, vjp_maximum>("maximum", {.in = {0, 1}});
  return def;
}
const OpDef& atan2_op() {
  static OpDef def = binary<functor::Atan2, Takes::floats, vjp_atan2, true>("atan2", {.in = {0, 1}},
                                                                            {}, Precision::widest);
  return def;
}
const OpDef& lerp_op() {
  static OpDef def = elementwise_op<functor::Lerp, 3>("lerp")
                         .vjp<vjp_lerp>({.in = {{0, {2}}, {1, {2}}, {2, {0, 1}}}})
                         .build();
  return def;
}
const OpDef& neg_op() {
  static OpDef def = elementwise_op<functor::Neg, 1, Takes::all>("neg")
                         .dtypes(kNumberDTypes)
                         .vjp<vjp_neg>({})
                         .complex(complex_kernel<complex_functor::Neg>())
                         .algebra({.involution = true, .fold = [](double a, double) { return -a; }})
                         .build();
  return def;
}
const OpDef& relu_op() {
  static OpDef def = elementwise_op<functor::Relu, 1, Takes::all>("relu")
                         .dtypes(kNumberDTypes)
                         .vjp<vjp_relu>({.out = {0}})
                         .algebra({.idempotent = true})
                         .build();
  return def;
}
const OpDef& relu_grad_op() {
  static OpDef def = elementwise_op<functor::ReluGrad, 2>("relu_grad")
                         .vjp<vjp_relu_grad>({.in = {{1, {0}}}})
                         .build();
  return def;
}

Tensor neg(const Tensor& x) { return dispatch(neg_op(), NoParams{}, {x})[0]; }
Tensor relu(const Tensor& x) { return dispatch(relu_op(), NoParams{}, {x})[0]; }
Tensor relu_grad(const Tensor& dy, const Tensor& y) {
  return dispatch(relu_grad_op(), NoParams{}, {dy, y})[0];
}

Tensor add(const Tensor& a, const Tensor& b) { return call(add_op(), a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return call(sub_op(), a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return call(mul_op(), a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return float_call(div_op(), a, b); }
Tensor floor_divide(const Tensor& a, const Tensor& b) { return call(floor_divide_op(), a, b); }
Tensor remainder(const Tensor& a, const Tensor& b) { return call(remainder_op(), a, b); }
Tensor pow(const Tensor& a, const Tensor& b) { return call(pow_op(), a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return call(minimum_op(), a, b); }
Tensor maximum(const Tensor& a, const Tensor& b) { return call(maximum_op(), a, b); }
Tensor atan2(const Tensor& y, const Tensor& x) { return float_call(atan2_op(), y, x); }
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight) {
  const DType t = promote(promote(a.dtype(), b.dtype()), weight.dtype());
  return dispatch(lerp_op(), NoParams{}, {cast(a, t), cast(b, t), cast(weight, t)})[0];
}

Tensor add(const Tensor& a, Number b) { return add(a, number(b, a, "add")); }
Tensor sub(const Tensor& a, Number b) { return sub(a, number(b, a, "sub")); }
Tensor mul(const Tensor& a, Number b) { return mul(a, number(b, a, "mul")); }
Tensor div(const Tensor& a, Number b) { return div(a, number(b, as_float(a), "div")); }
Tensor floor_divide(const Tensor& a, Number b) {
  return floor_divide(a, number(b, a, "floor_divide"));
}
Tensor remainder(const Tensor& a, Number b) { return remainder(a, number(b, a, "remainder")); }
Tensor minimum(const Tensor& a, Number b) { return minimum(a, number(b, a, "minimum")); }
Tensor maximum(const Tensor& a, Number b) { return maximum(a, number(b, a, "maximum")); }
Tensor detail::number(Number value, const Tensor& like, const char* op) {
  return elementwise::number(value, like, op);
}
Tensor sub(Number a, const Tensor& b) { return sub(number(a, b, "sub"), b); }
Tensor div(Number a, const Tensor& b) { return div(number(a, as_float(b), "div"), b); }
Tensor pow(Number a, const Tensor& b) { return pow(number(a, b, "pow"), b); }
Tensor pow(const Tensor& a, Number b) {
  const Tensor exponent = number(b, a, "pow");
  const bool squares = b == Number(2) || b == Number(2.0);
  if (squares && exponent.dtype() == a.dtype()) return square(a);
  return pow(a, exponent);
}
Tensor lerp(const Tensor& a, const Tensor& b, Number weight) {
  return lerp(a, b, number(weight, a, "lerp"));
}

Functions elementwise_functions() {
  mica::Function negative = unary(
      "neg", neg, "-input of each element, in input's dtype; unsigned integers wrap. Not of bool.",
      kInPlaceToo);
  negative.second_names = {"negative"};
  return {
      arithmetic<add, add>(
          "add",
          "input + other; shapes broadcast and dtypes promote. A number takes the tensor's dtype, "
          "which must hold it; a float beside integers makes float32. Integers wrap."),
      arithmetic<sub, sub, sub>(
          "sub",
          "input - other; shapes broadcast and dtypes promote. A number takes the tensor's dtype, "
          "which must hold it; a float beside integers makes float32. Integers wrap.",
          kModuleAndMethod, {"subtract"}),
      arithmetic<mul, mul>(
          "mul",
          "input * other; shapes broadcast and dtypes promote. A number takes the tensor's dtype, "
          "which must hold it; a float beside integers makes float32. Integers wrap.",
          kModuleAndMethod, {"multiply"}),
      arithmetic<div, div, div>("div",
                                "input / other, in floating point: two integers give float32. "
                                "Shapes broadcast and dtypes promote.",
                                kModuleAndMethod, {"divide", "true_divide"}),
      arithmetic<floor_divide, floor_divide>(
          "floor_divide",
          "floor(input / other); shapes broadcast and dtypes promote. Integers by zero raise.",
          kInPlaceToo),
      arithmetic<remainder, remainder>(
          "remainder",
          "What remains of input / floor_divide, with other's sign; shapes broadcast and dtypes "
          "promote. Integers by zero raise.",
          kInPlaceToo),
      arithmetic<minimum, minimum>("minimum",
                                   "The smaller of input and other; shapes broadcast and dtypes "
                                   "promote. NaN wins; equals share the gradient."),
      arithmetic<maximum, maximum>("maximum",
                                   "The larger of input and other; shapes broadcast and dtypes "
                                   "promote. NaN wins; equals share the gradient."),
      {.name = "pow",
       .doc = "input to the power of exponent; shapes broadcast and dtypes promote. An integer "
              "other than 1 and -1 to a negative integer is 0.",
       .signatures = {{overload<const Tensor&, const Tensor&>(pow), {"input", "exponent"}},
                      {overload<const Tensor&, Number>(pow), {"input", "exponent"}},
                      {overload<Number, const Tensor&>(pow), {"input", "exponent"}}},
       .offer = kInPlaceToo},
      binary("atan2", atan2,
             "The angle of the point (other, input) in [-pi, pi], in radians; shapes broadcast, "
             "integers give float32."),
      {.name = "lerp",
       .doc = "input + weight * (end - input); shapes broadcast and dtypes promote, integers with "
              "a fraction as weight give float32.",
       .signatures = {{overload<const Tensor&, const Tensor&, const Tensor&>(lerp),
                       {"input", "end", "weight"}},
                      {overload<const Tensor&, const Tensor&, Number>(lerp),
                       {"input", "end", "weight"}}},
       .offer = kInPlaceToo},
      negative,
      {.name = "relu",
       .doc = "max(input, 0) of each element, in input's dtype; NaN stays. Not of bool.",
       .signatures = {{relu, {"input"}}},
       .offer = kInPlaceToo},
      {.name = "relu",
       .doc = "max(input, 0) of each element, in input's dtype; NaN stays. Not of bool.",
       .signatures = {{relu, {"input", ignored_inplace()}}},
       .offer = kFunctional},
  };
}

}  // namespace mica
