#pragma once

// What the public functions and gradients of elementwise ops share.
#include "mica/op/dispatch.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/reduce/reduce.h"

namespace mica::elementwise {

/// A number as a 0-d tensor for an operand `like`: of its dtype, which must hold it, of f32 for a
/// floating one beside integers or bools, and i64 for an integer beside bools. `op` names the
/// operator in errors.
Tensor number(Number value, const Tensor& like, const char* op);

/// A call with operands brought to one dtype by promotion.
Tensor call(const OpDef& op, const Tensor& a, const Tensor& b);
/// The same for functions of floats: integers count as f32.
Tensor float_call(const OpDef& op, const Tensor& a, const Tensor& b);

inline Tensor as_float(const Tensor& x) {
  return is_differentiable(x.dtype()) ? x : cast(x, DType::f32);
}

/// The gradient g() of a broadcast operand, summed to its shape; undefined where nobody asks.
template <class G>
Tensor for_input(const VjpArgs& a, int i, G&& g) {
  return a.needs(i) ? sum_to(g(), a.in_specs[static_cast<size_t>(i)].shape) : Tensor();
}

/// The vjp of a function of one operand from `Tensor gradient(const VjpArgs&)`.
template <auto gradient, class P = NoParams>
Tensors only(const P&, const VjpArgs& a) {
  return {gradient(a)};
}
/// The vjp of a function that is constant wherever it is smooth.
template <class P>
Tensors zero_vjp(const P&, const VjpArgs& a) {
  Tensors grads(a.in_specs.size());
  for (size_t i = 0; i < grads.size(); ++i)
    if (a.needs(static_cast<int>(i)))
      grads[i] = zeros(a.in_specs[i].shape, {a.in_specs[i].dtype, a.in_specs[i].device});
  return grads;
}

}  // namespace mica::elementwise
