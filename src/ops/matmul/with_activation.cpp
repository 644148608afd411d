// A layer's product and its activation in training, each pair in one pass: linear_and_act gives
// both results, since the gradient of some activations reads the product; matmul_act_grad is the
// gradient of an activation where that of its result is a product.
#include "mica/core/check.h"
#include "mica/op/choices.h"
#include "mica/op/composed.h"
#include "mica/op/composition.h"
#include "mica/op/dispatch.h"
#include "mica/ops/activation/activation.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/matmul/problem.h"

namespace mica {

const OpDef& matmul_op();
const OpDef& linear_op();
const OpDef& linear_act_op();
const OpDef& relu_op();
const OpDef& relu_grad_op();
const OpDef& gelu_op();
const OpDef& gelu_grad_op();

namespace {

void check_activation(const char* op, const LinearParams& params) {
  check(params.activation != Activation::none, "{}: there must be an activation", op);
}

bool is_relu(const LinearParams& params) { return params.activation == Activation::relu; }

/// x, weight and bias as of `linear`; gives activation(y) and y, the layer's product.
void infer_linear_and_act(const LinearParams& params, std::span<const TensorSpec> in,
                          OutSpecs& out) {
  check_activation(out.op(), params);
  linear_act_op().infer(linear_act_op(), &params, in, out);
  const TensorSpec first = out[0];
  out.add(first.shape, first.dtype);
  out[1].strides = first.strides;
}

Tensors compose_linear_and_act(const LinearParams& params, std::span<const Tensor> in) {
  const Tensor product = linear(in[0], in[1], in[2]);
  return {is_relu(params) ? relu(product) : gelu(product), product};
}

std::shared_ptr<ComposedState> prepare_linear_and_act(const LinearParams& params, const Specs& s) {
  auto state = std::make_shared<ComposedState>(s);
  const int product = state->out(1);
  state->add(linear_op(), NoParams{}, {state->in(0), state->in(1), state->in(2)}, {product});
  state->add(is_relu(params) ? relu_op() : gelu_op(), NoParams{}, {product}, {state->out(0)});
  return state;
}

/// a and b as of `matmul`; saved, of their product's shape, is what the activation's gradient
/// reads: relu's result, gelu's argument.
void infer_matmul_act_grad(const LinearParams& params, std::span<const TensorSpec> in,
                           OutSpecs& out) {
  check_activation(out.op(), params);
  const NoParams none;
  matmul_op().infer(matmul_op(), &none, in.first(2), out);
  check<ShapeError>(in[2].shape == out[0].shape, "{}: what is saved must be {}, got {}", out.op(),
                    out[0].shape, in[2].shape);
  check<DTypeError>(in[2].dtype == out[0].dtype, "{}: what is saved must be {}, got {}", out.op(),
                    out[0].dtype, in[2].dtype);
}

const OpDef& gradient_op(const LinearParams& params) {
  return is_relu(params) ? relu_grad_op() : gelu_grad_op();
}

Tensors compose_matmul_act_grad(const LinearParams& params, std::span<const Tensor> in) {
  return {dispatch(gradient_op(params), NoParams{}, {matmul(in[0], in[1]), in[2]})[0]};
}

std::shared_ptr<ComposedState> prepare_matmul_act_grad(const LinearParams& params, const Specs& s) {
  auto state = std::make_shared<ComposedState>(s);
  const int dy = state->out(0);
  state->add(matmul_op(), NoParams{}, {state->in(0), state->in(1)}, {dy});
  state->add(gradient_op(params), NoParams{}, {dy, state->in(2)}, {dy});
  return state;
}

void run(const LinearParams&, const ComposedState& state, const Call& call) { state.run(call); }

}  // namespace

Kernel linear_and_act_composed_kernel() {
  return timed_kernel<supports_all<LinearParams>, prepare_linear_and_act, run>("composed");
}

Kernel matmul_act_grad_composed_kernel() {
  return timed_kernel<supports_all<LinearParams>, prepare_matmul_act_grad, run>("composed");
}

const OpDef& linear_and_act_op() {
  static OpDef def = Op<LinearParams>("linear_and_act")
                         .inputs({"x", "weight", "bias?"})
                         .outputs({"y", "product"})
                         .flops<product_flops<LinearParams>>()
                         .precision(Precision::low)
                         .dtypes(kFloatDTypes)
                         .infer<infer_linear_and_act>()
                         .vjp<vjp_by<compose_linear_and_act, LinearParams>>({.in = {0, 1, 2}})
                         .cpu({linear_and_act_composed_kernel()})
                         .build();
  return def;
}

const OpDef& matmul_act_grad_op() {
  static OpDef def = Op<LinearParams>("matmul_act_grad")
                         .inputs({"a", "b", "y"})
                         .flops<product_flops<LinearParams>>()
                         .dtypes(kFloatDTypes)
                         .infer<infer_matmul_act_grad>()
                         .vjp<vjp_by<compose_matmul_act_grad, LinearParams>>({.in = {0, 1, 2}})
                         .cpu({matmul_act_grad_composed_kernel()})
                         .build();
  return def;
}

}  // namespace mica
