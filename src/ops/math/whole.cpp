// Functions that keep integers.
#include "mica/op/function.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/complex/complex.h"
#include "mica/ops/complex/cpu.h"
#include "mica/ops/elementwise/calls.h"
#include "mica/ops/elementwise/cpu.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/math/functors.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/where/where.h"

namespace mica {
namespace {

using namespace elementwise;

Tensor grad_square(const VjpArgs& a) { return mul(a.grad[0], conj(mul(a.in[0], 2.0))); }
Tensor grad_abs(const VjpArgs& a) { return mul(a.grad[0], sign(a.in[0])); }

/// Rounds floats; integers are whole already.
template <class F>
OpDef rounding(const char* name) {
  return elementwise_op<F>(name)
      .template vjp<zero_vjp<NoParams>>({})
      .algebra({.idempotent = true})
      .build();
}
Tensor rounded(const OpDef& op, const Tensor& x) {
  return is_differentiable(x.dtype()) ? dispatch(op, NoParams{}, {x})[0] : x;
}

}  // namespace

const OpDef& square_op() {
  static OpDef def = elementwise_op<functor::Square, 1, Takes::all>("square")
                         .dtypes(kNumberDTypes)
                         .vjp<only<grad_square>>({.in = {0}})
                         .complex(complex_kernel<complex_functor::Square>())
                         .build();
  return def;
}
const OpDef& abs_op() {
  static OpDef def = elementwise_op<functor::Abs, 1, Takes::all>("abs")
                         .dtypes(kNumberDTypes)
                         .vjp<only<grad_abs>>({.in = {0}})
                         .algebra({.idempotent = true})
                         .build();
  return def;
}
const OpDef& sign_op() {
  static OpDef def = elementwise_op<functor::Sign, 1, Takes::all>("sign")
                         .dtypes(kNumberDTypes)
                         .vjp<zero_vjp<NoParams>>({})
                         .algebra({.idempotent = true})
                         .build();
  return def;
}
const OpDef& floor_op() {
  static OpDef def = rounding<functor::Floor>("floor");
  return def;
}
const OpDef& ceil_op() {
  static OpDef def = rounding<functor::Ceil>("ceil");
  return def;
}
const OpDef& trunc_op() {
  static OpDef def = rounding<functor::Trunc>("trunc");
  return def;
}
const OpDef& round_op() {
  static OpDef def = rounding<functor::Round>("round");
  return def;
}

Tensor square(const Tensor& x) { return dispatch(square_op(), NoParams{}, {x})[0]; }
Tensor abs(const Tensor& x) {
  return is_complex(x.dtype()) ? complex_abs(x) : dispatch(abs_op(), NoParams{}, {x})[0];
}
Tensor sign(const Tensor& x) {
  if (!is_complex(x.dtype())) return dispatch(sign_op(), NoParams{}, {x})[0];
  const Tensor size = abs(x);
  const Tensor none = eq(size, 0);
  return where(none, 0.0, div(x, where(none, 1.0, size)));
}
Tensor floor(const Tensor& x) { return rounded(floor_op(), x); }
Tensor ceil(const Tensor& x) { return rounded(ceil_op(), x); }
Tensor trunc(const Tensor& x) { return rounded(trunc_op(), x); }
Tensor round(const Tensor& x) {
  return is_complex(x.dtype()) ? by_parts(x, round) : rounded(round_op(), x);
}

Functions whole_number_functions() {
  mica::Function absolute =
      unary("abs", abs, "|input| of each element, in input's dtype; not of bool.", kInPlaceToo);
  absolute.second_names = {"absolute"};
  return {
      absolute,
      unary("square", square, "input * input, in input's dtype; integers wrap. Not of bool.",
            kInPlaceToo),
      unary("sign", sign, "-1, 0 or 1 for each element, in input's dtype; NaN stays. Not of bool.",
            kInPlaceToo),
      unary("floor", floor,
            "The greatest whole number that is not above each element, in input's dtype.",
            kInPlaceToo),
      unary("ceil", ceil,
            "The least whole number that is not below each element, in input's dtype.",
            kInPlaceToo),
      unary("trunc", trunc, "Each element without its fraction, in input's dtype.", kInPlaceToo),
      unary("round", round,
            "The nearest whole number of each element, halves to the even one, in input's dtype.",
            kInPlaceToo),
  };
}

}  // namespace mica
