#include "mica/ops/fused/fused.h"

#include <algorithm>

#include "mica/core/check.h"
#include "mica/op/select.h"

namespace mica {
namespace {

void infer(const FusedParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  const std::vector<TensorSpec> values = p.program->infer(in);
  for (const int o : p.program->outputs) {
    const TensorSpec& s = values[static_cast<size_t>(p.program->inputs) + static_cast<size_t>(o)];
    out.add(s.shape, s.dtype);
  }
}

/// Instructions run one after the other: an output may be written where nothing is read any more.
bool overwrites(const FusedParams& p, int input, int output) {
  const Program& program = *p.program;
  const int made = program.outputs[static_cast<size_t>(output)];
  return std::none_of(program.instructions.begin() + made + 1, program.instructions.end(),
                      [&](const Instruction& later) {
                        return std::find(later.operands.begin(), later.operands.end(), input) !=
                               later.operands.end();
                      });
}

struct ComposedState : KernelState {
  std::vector<TensorSpec> values;
  std::vector<std::shared_ptr<const Prepared>> kernels;  ///< by instruction
  std::vector<int> slots;
  size_t slot_bytes = 0;
};

std::shared_ptr<ComposedState> prepare_composed(const FusedParams& p, const Specs& s) {
  constexpr size_t kAlignment = 256;
  const Program& program = *p.program;
  auto state = std::make_shared<ComposedState>();
  state->values = program.infer(s.in);
  state->slots = program.slots(program.is_output());
  size_t widest = 0;
  for (size_t v = s.in.size(); v < state->values.size(); ++v) {
    state->values[v].strides = s.out[0].strides;
    widest = std::max(widest, size_of(state->values[v].dtype));
  }
  for (size_t k = 0; k < s.out.size(); ++k)
    state->values[static_cast<size_t>(program.inputs) + static_cast<size_t>(program.outputs[k])] =
        s.out[k];
  const auto bytes = static_cast<size_t>(s.out[0].numel()) * widest;
  state->slot_bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  const int slots = *std::max_element(state->slots.begin(), state->slots.end()) + 1;
  state->workspace_bytes = static_cast<size_t>(slots) * state->slot_bytes;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& one = program.instructions[i];
    std::vector<TensorSpec> in;
    for (const int v : one.operands) in.push_back(state->values[static_cast<size_t>(v)]);
    const TensorSpec& out = state->values[s.in.size() + i];
    state->kernels.push_back(select(*one.op, one.params.ref(), {in, {&out, 1}}, out.device));
    check(!state->kernels.back()->needs_copies() &&
              state->kernels.back()->state->workspace_bytes == 0,
          "fused: kernel {} of {} wants copies or memory", state->kernels.back()->kernel->name,
          one.op->name);
  }
  return state;
}

void run_composed(const FusedParams& p, const ComposedState& state, const Call& c) {
  const Program& program = *p.program;
  std::array<Arg, Program::kMostValues> values;
  std::copy(c.in.begin(), c.in.end(), values.begin());
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& one = program.instructions[i];
    Arg& out = values[c.in.size() + i];
    const int output = program.output_of(static_cast<int>(i));
    if (output >= 0) {
      out = c.out[static_cast<size_t>(output)];
    } else {
      out = {static_cast<std::byte*>(c.workspace) +
                 static_cast<size_t>(state.slots[i]) * state.slot_bytes,
             &state.values[c.in.size() + i]};
    }
    std::array<Arg, Program::kMostOperands> in;
    for (size_t k = 0; k < one.operands.size(); ++k)
      in[k] = values[static_cast<size_t>(one.operands[k])];
    const Prepared& prepared = *state.kernels[i];
    prepared.run(one.params.ref().data,
                 {{in.data(), one.operands.size()}, {&out, 1}, nullptr, c.encoder});
  }
}

}  // namespace

Kernel fused_composed_kernel() {
  Kernel k = kernel<supports_all<FusedParams>, prepare_composed, run_composed>("composed");
  k.takes_complex = true;  // as far as the ops that it is made of do
  return k;
}

const OpDef& fused_op() {
  static OpDef def =
      Op<FusedParams>("fused")
          .inputs({"x..."})
          .outputs({"y..."})
          .infer<infer>()
          .overwrites<overwrites>()
          .no_gradient("it exists only inside compiled functions, after the pass back")
          .cpu({fused_tiled_kernel(), fused_composed_kernel()})
          .build();
  return def;
}

}  // namespace mica
