#include "mica/ops/hardswish/hardswish.h"

#include "mica/op/composition.h"
#include "mica/op/dispatch.h"
#include "mica/op/function.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/elementwise/cpu.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/hardswish/functors.h"
#include "mica/ops/where/where.h"

namespace mica {

const OpDef& hardswish_grad_op();

namespace {

Tensors vjp(const NoParams&, const VjpArgs& a) {
  return {dispatch(hardswish_grad_op(), NoParams{}, {a.grad[0], a.in[0]})[0]};
}

/// What hardswish_grad computes, with other ops: its own gradient follows from it.
Tensors grad_composition(const NoParams&, std::span<const Tensor> in) {
  const Tensor& dy = in[0];
  const Tensor& x = in[1];
  const Tensor slope = where(lt(x, 3.0), add(div(x, 3.0), 0.5), ones_like(x));
  return {mul(dy, where(le(x, -3.0), zeros_like(x), slope))};
}

}  // namespace

const OpDef& hardswish_op() {
  static OpDef def = elementwise_op<functor::Hardswish>("hardswish").vjp<vjp>({.in = {0}}).build();
  return def;
}

const OpDef& hardswish_grad_op() {
  static OpDef def = elementwise_op<functor::HardswishGrad, 2>("hardswish_grad")
                         .vjp<vjp_by<grad_composition, NoParams>>({.in = {0, 1}})
                         .build();
  return def;
}

Tensor hardswish(const Tensor& x) { return dispatch(hardswish_op(), NoParams{}, {x})[0]; }

Functions hardswish_functions() {
  return {{.name = "hardswish",
           .doc = "input * clamp(input + 3, 0, 6) / 6; of a floating dtype.",
           .signatures = {{hardswish, {"input", ignored_inplace()}}},
           .offer = kFunctional}};
}

}  // namespace mica
