#include "mica/ops/compare/compare.h"

#include <cmath>

#include "mica/op/function.h"
#include "mica/ops/compare/functors.h"
#include "mica/ops/complex/complex.h"
#include "mica/ops/complex/cpu.h"
#include "mica/ops/elementwise/calls.h"
#include "mica/ops/elementwise/cpu.h"
#include "mica/ops/fill/fill.h"

namespace mica {
namespace {

using elementwise::call;
using elementwise::number;

constexpr const char* kTruth = "a truth value does not change smoothly";
constexpr const char* kBits = "integers have no gradient";

template <class F, size_t N>
OpDef truth(const char* name, const Algebra& algebra = {}) {
  return elementwise_op<F, N, Takes::all>(name).no_gradient(kTruth).algebra(algebra).build();
}
/// Equality, which complex numbers have too.
template <class F, class C>
OpDef equality(const char* name) {
  return elementwise_op<F, 2, Takes::all>(name)
      .no_gradient(kTruth)
      .algebra({.commutes = true})
      .complex(complex_kernel<C, 2>())
      .build();
}
template <class F, size_t N>
OpDef bits(const char* name) {
  return elementwise_op<F, N, Takes::bits>(name)
      .no_gradient(kBits)
      .algebra({.commutes = true})
      .build();
}

/// A comparison: what it says of a number above every element, of one below, and whether the
/// integers that it holds for end at the number rounded up.
struct Comparison {
  const OpDef& (*op)();
  bool above, below;
  bool up;
};

/// Integers are compared with an integer: a fraction is rounded to the side where the answers stay
/// the same, and what their dtype does not hold is above or below all of them.
Tensor compare(const Comparison& how, const Tensor& a, Number b) {
  const OpDef& op = how.op();
  if (!is_integer(a.dtype()) || b.is_complex()) return call(op, a, number(b, a, op.name));
  const auto always = [&](bool answer) {
    return full(a.shape(), answer, {DType::boolean, a.device()});
  };
  if (b.is_floating()) {
    const double value = b.to_double();
    const double whole = how.up ? std::ceil(value) : std::floor(value);
    const bool unequal = std::isnan(value) || (how.above == how.below && whole != value);
    if (unequal) return always(how.above && how.below);
    if (Number(whole).fits_in<int64_t>()) {
      b = static_cast<int64_t>(whole);
    } else if (Number(whole).fits_in<uint64_t>()) {
      b = static_cast<uint64_t>(whole);
    } else {
      return always(whole > 0 ? how.above : how.below);
    }
  }
  if (!fits(b, a.dtype())) return always(b.to_double() > 0 ? how.above : how.below);
  return call(op, a, number(b, a, op.name));
}

}  // namespace

const OpDef& eq_op() {
  static OpDef def = equality<functor::Eq, complex_functor::Eq>("eq");
  return def;
}
const OpDef& ne_op() {
  static OpDef def = equality<functor::Ne, complex_functor::Ne>("ne");
  return def;
}
const OpDef& lt_op() {
  static OpDef def = truth<functor::Lt, 2>("lt");
  return def;
}
const OpDef& le_op() {
  static OpDef def = truth<functor::Le, 2>("le");
  return def;
}
const OpDef& gt_op() {
  static OpDef def = truth<functor::Gt, 2>("gt");
  return def;
}
const OpDef& ge_op() {
  static OpDef def = truth<functor::Ge, 2>("ge");
  return def;
}
const OpDef& logical_and_op() {
  static OpDef def = truth<functor::LogicalAnd, 2>("logical_and", {.commutes = true});
  return def;
}
const OpDef& logical_or_op() {
  static OpDef def = truth<functor::LogicalOr, 2>("logical_or", {.commutes = true});
  return def;
}
const OpDef& logical_xor_op() {
  static OpDef def = truth<functor::LogicalXor, 2>("logical_xor", {.commutes = true});
  return def;
}
const OpDef& logical_not_op() {
  static OpDef def = truth<functor::LogicalNot, 1>("logical_not");
  return def;
}
const OpDef& isnan_op() {
  static OpDef def = truth<functor::IsNan, 1>("isnan");
  return def;
}
const OpDef& isinf_op() {
  static OpDef def = truth<functor::IsInf, 1>("isinf");
  return def;
}
const OpDef& isfinite_op() {
  static OpDef def = truth<functor::IsFinite, 1>("isfinite");
  return def;
}
const OpDef& signbit_op() {
  static OpDef def = truth<functor::SignBit, 1>("signbit");
  return def;
}
const OpDef& bitwise_and_op() {
  static OpDef def = bits<functor::BitwiseAnd, 2>("bitwise_and");
  return def;
}
const OpDef& bitwise_or_op() {
  static OpDef def = bits<functor::BitwiseOr, 2>("bitwise_or");
  return def;
}
const OpDef& bitwise_xor_op() {
  static OpDef def = bits<functor::BitwiseXor, 2>("bitwise_xor");
  return def;
}
const OpDef& bitwise_not_op() {
  static OpDef def = elementwise_op<functor::BitwiseNot, 1, Takes::bits>("bitwise_not")
                         .dtypes(kIntegerDTypes)
                         .algebra({.involution = true})
                         .no_gradient(kBits)
                         .build();
  return def;
}
const OpDef& left_shift_op() {
  static OpDef def = elementwise_op<functor::LeftShift, 2, Takes::bits>("left_shift")
                         .dtypes(kIntegerDTypes)
                         .no_gradient(kBits)
                         .build();
  return def;
}
const OpDef& right_shift_op() {
  static OpDef def = elementwise_op<functor::RightShift, 2, Takes::bits>("right_shift")
                         .dtypes(kIntegerDTypes)
                         .no_gradient(kBits)
                         .build();
  return def;
}

Tensor eq(const Tensor& a, const Tensor& b) { return call(eq_op(), a, b); }
Tensor ne(const Tensor& a, const Tensor& b) { return call(ne_op(), a, b); }
Tensor lt(const Tensor& a, const Tensor& b) { return call(lt_op(), a, b); }
Tensor le(const Tensor& a, const Tensor& b) { return call(le_op(), a, b); }
Tensor gt(const Tensor& a, const Tensor& b) { return call(gt_op(), a, b); }
Tensor ge(const Tensor& a, const Tensor& b) { return call(ge_op(), a, b); }
Tensor truth_of(const Tensor& x) { return x.defined() && is_complex(x.dtype()) ? ne(x, 0) : x; }
Tensor logical_and(const Tensor& a, const Tensor& b) {
  return call(logical_and_op(), truth_of(a), truth_of(b));
}
Tensor logical_or(const Tensor& a, const Tensor& b) {
  return call(logical_or_op(), truth_of(a), truth_of(b));
}
Tensor logical_xor(const Tensor& a, const Tensor& b) {
  return call(logical_xor_op(), truth_of(a), truth_of(b));
}
Tensor bitwise_and(const Tensor& a, const Tensor& b) { return call(bitwise_and_op(), a, b); }
Tensor bitwise_or(const Tensor& a, const Tensor& b) { return call(bitwise_or_op(), a, b); }
Tensor bitwise_xor(const Tensor& a, const Tensor& b) { return call(bitwise_xor_op(), a, b); }
Tensor left_shift(const Tensor& a, const Tensor& b) { return call(left_shift_op(), a, b); }
Tensor right_shift(const Tensor& a, const Tensor& b) { return call(right_shift_op(), a, b); }
Tensor eq(const Tensor& a, Number b) { return compare({eq_op, false, false, true}, a, b); }
Tensor ne(const Tensor& a, Number b) { return compare({ne_op, true, true, true}, a, b); }
Tensor lt(const Tensor& a, Number b) { return compare({lt_op, true, false, true}, a, b); }
Tensor le(const Tensor& a, Number b) { return compare({le_op, true, false, false}, a, b); }
Tensor gt(const Tensor& a, Number b) { return compare({gt_op, false, true, false}, a, b); }
Tensor ge(const Tensor& a, Number b) { return compare({ge_op, false, true, true}, a, b); }
Tensor logical_not(const Tensor& x) {
  return dispatch(logical_not_op(), NoParams{}, {truth_of(x)})[0];
}
Tensor isnan(const Tensor& x) {
  if (x.defined() && is_complex(x.dtype())) return logical_or(isnan(real(x)), isnan(imag(x)));
  return dispatch(isnan_op(), NoParams{}, {x})[0];
}
Tensor isinf(const Tensor& x) {
  if (x.defined() && is_complex(x.dtype())) return logical_or(isinf(real(x)), isinf(imag(x)));
  return dispatch(isinf_op(), NoParams{}, {x})[0];
}
Tensor isfinite(const Tensor& x) {
  if (x.defined() && is_complex(x.dtype()))
    return logical_and(isfinite(real(x)), isfinite(imag(x)));
  return dispatch(isfinite_op(), NoParams{}, {x})[0];
}
Tensor signbit(const Tensor& x) { return dispatch(signbit_op(), NoParams{}, {x})[0]; }
Tensor bitwise_not(const Tensor& x) {
  if (x.dtype() == DType::boolean) return logical_not(x);
  return dispatch(bitwise_not_op(), NoParams{}, {x})[0];
}

namespace {

mica::Function comparison(const char* name, Tensor (*tensors)(const Tensor&, const Tensor&),
                          Tensor (*number)(const Tensor&, Number), const char* doc,
                          std::vector<const char*> second_names = {}) {
  return {.name = name,
          .doc = doc,
          .signatures = {{tensors, {"input", "other"}}, {number, {"input", "other"}}},
          .second_names = std::move(second_names)};
}

}  // namespace

Functions compare_functions() {
  return {
      comparison("eq", eq, eq,
                 "Whether input equals other, as bool; shapes broadcast and dtypes promote. NaN "
                 "equals nothing."),
      comparison("ne", ne, ne,
                 "Whether input differs from other, as bool; shapes broadcast and dtypes promote. "
                 "NaN differs from everything.",
                 {"not_equal"}),
      comparison(
          "lt", lt, lt,
          "Whether input < other, as bool; shapes broadcast and dtypes promote. False for NaN.",
          {"less"}),
      comparison(
          "le", le, le,
          "Whether input <= other, as bool; shapes broadcast and dtypes promote. False for NaN.",
          {"less_equal"}),
      comparison(
          "gt", gt, gt,
          "Whether input > other, as bool; shapes broadcast and dtypes promote. False for NaN.",
          {"greater"}),
      comparison(
          "ge", ge, ge,
          "Whether input >= other, as bool; shapes broadcast and dtypes promote. False for NaN.",
          {"greater_equal"}),
      binary("logical_and", logical_and,
             "Whether both are not zero, as bool; shapes broadcast. NaN is not zero."),
      binary("logical_or", logical_or,
             "Whether one or both are not zero, as bool; shapes broadcast. NaN is not zero."),
      binary(
          "logical_xor", logical_xor,
          "Whether one is not zero and the other is, as bool; shapes broadcast. NaN is not zero."),
      binary("bitwise_and", bitwise_and,
             "input & other of integers or bool; shapes broadcast and dtypes promote."),
      binary("bitwise_or", bitwise_or,
             "input | other of integers or bool; shapes broadcast and dtypes promote."),
      binary("bitwise_xor", bitwise_xor,
             "input ^ other of integers or bool; shapes broadcast and dtypes promote."),
      {.name = "bitwise_left_shift",
       .doc = "input << other of integers; shapes broadcast. A shift by the whole width or more, "
              "or by a negative number, gives 0.",
       .signatures = {{left_shift, {"input", "other"}}},
       .op = "left_shift"},
      {.name = "bitwise_right_shift",
       .doc = "input >> other of integers, with the sign; shapes broadcast. A shift by the whole "
              "width or more, or by a negative number, leaves nothing but the sign: 0 or -1.",
       .signatures = {{right_shift, {"input", "other"}}},
       .op = "right_shift"},
      unary("logical_not", logical_not, "Whether each element is zero, as bool."),
      unary("bitwise_not", bitwise_not, "~input of integers, the opposite of bool."),
      unary("isnan", isnan, "Whether each element is NaN, as bool."),
      unary("isinf", isinf, "Whether each element is infinite, as bool."),
      unary("isfinite", isfinite, "Whether each element is neither infinite nor NaN, as bool."),
      unary("signbit", signbit,
            "Whether the sign of each element is a minus, as bool; also of -0.0 and of NaN."),
  };
}

}  // namespace mica
