#include "mica/ops/hardswish/hardswish.h"

#include "mica/op/dispatch.h"
#include "mica/ops/elementwise/binary.h"
#include "mica/ops/elementwise/unary.h"

namespace mica {

const OpDef& hardswish_grad_op();

namespace {

void infer(const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  unary::infer_as<Takes::floats>("hardswish", in, out);
}

void infer_grad(const NoParams&, std::span<const TensorSpec> in, OutSpecs& out) {
  binary::infer_as("hardswish_grad", in, out);
}

Tensors vjp(const NoParams&, const VjpArgs& a) {
  return {dispatch(hardswish_grad_op(), NoParams{}, {a.grad[0], a.in[0]})[0]};
}

}  // namespace

const OpDef& hardswish_op() {
  static OpDef def = Op<NoParams>("hardswish")
                         .infer<infer>()
                         .vjp<vjp>({.in = {0}})
                         .elementwise(1)
                         .cpu(unary_cpu_kernels<functor::Hardswish>())
                         .build();
  return def;
}

const OpDef& hardswish_grad_op() {
  static OpDef def = Op<NoParams>("hardswish_grad")
                         .infer<infer_grad>()
                         .no_gradient("the second derivative of hardswish is not written")
                         .elementwise(2)
                         .cpu(binary::cpu_kernels<functor::HardswishGrad>())
                         .build();
  return def;
}

Tensor hardswish(const Tensor& x) { return dispatch(hardswish_op(), NoParams{}, {x})[0]; }

}  // namespace mica
