#include "mica/ops/anchored/anchored.h"

namespace mica {

const OpDef& add_op();
const OpDef& relu_op();
const OpDef& relu_grad_op();
const OpDef& gelu_op();
const OpDef& gelu_grad_op();
const OpDef& gelu_tanh_op();
const OpDef& gelu_tanh_grad_op();
const OpDef& silu_op();
const OpDef& silu_grad_op();
const OpDef& hardswish_op();
const OpDef& hardswish_grad_op();
const OpDef& tanh_op();
const OpDef& tanh_grad_op();
const OpDef& sigmoid_op();
const OpDef& sigmoid_grad_op();

namespace {

struct Known {
  Activation activation;
  const OpDef& op;
  const OpDef& gradient;
};

std::span<const Known> known_activations() {
  static const Known all[] = {{Activation::relu, relu_op(), relu_grad_op()},
                              {Activation::gelu, gelu_op(), gelu_grad_op()},
                              {Activation::gelu_tanh, gelu_tanh_op(), gelu_tanh_grad_op()},
                              {Activation::silu, silu_op(), silu_grad_op()},
                              {Activation::hardswish, hardswish_op(), hardswish_grad_op()},
                              {Activation::tanh, tanh_op(), tanh_grad_op()},
                              {Activation::sigmoid, sigmoid_op(), sigmoid_grad_op()}};
  return all;
}

}  // namespace

std::optional<KnownAfter> known_after(const AnchoredParams& params, const OpDef& anchor) {
  const Anchored& a = *params.call;
  if (a.op != &anchor || a.before.program || !a.after.program) return std::nullopt;
  const Program& p = *a.after;
  const auto count = static_cast<int>(p.instructions.size());
  if (p.outputs.size() != 1 || p.outputs[0] != count - 1) return std::nullopt;
  const auto is_given = [&](int value) { return value > 0 && value < p.inputs; };
  KnownAfter known;
  int value = 0;  // the result so far
  for (int i = 0; i < count; ++i) {
    const Instruction& one = p.instructions[static_cast<size_t>(i)];
    if (known.activation != Activation::none) return std::nullopt;
    if (one.op == &add_op() && i == 0) {
      const int other = one.operands[one.operands[0] == value ? 1 : 0];
      if (!is_given(other) || (one.operands[0] != value && one.operands[1] != value))
        return std::nullopt;
      known.added = a.input_after(other);
    }
    for (const Known& k : known_activations()) {
      if (one.op == &k.op && one.operands[0] == value) known.activation = k.activation;
      if (one.op == &k.gradient && count == 1 && one.operands[0] == value &&
          is_given(one.operands[1])) {
        known.activation = k.activation;
        known.saved = a.input_after(one.operands[1]);
      }
    }
    if (known.activation == Activation::none && (one.op != &add_op() || i > 0)) return std::nullopt;
    value = p.inputs + i;
  }
  return known;
}

Program program_of(Activation activation) {
  for (const Known& k : known_activations())
    if (k.activation == activation)
      return {1, {{&k.op, AnyParams(params_info<NoParams>()), {0}}}, {0}};
  return {};
}

}  // namespace mica
