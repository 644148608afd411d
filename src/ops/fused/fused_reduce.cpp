#include "mica/ops/fused/fused_reduce.h"

#include "mica/core/check.h"
#include "mica/op/select.h"
#include "mica/ops/fused/fused.h"
#include "mica/ops/reduce/axes.h"

namespace mica {
namespace {

void infer(const FusedReduceParams& p, std::span<const TensorSpec> in, OutSpecs& out) {
  check(p.program->outputs.size() == 1, "fused_reduce: the program must have one result, not {}",
        p.program->outputs.size());
  const TensorSpec whole = reduced_tensor(*p.program, in);
  check<DTypeError>(is_floating(whole.dtype), "fused_reduce: expected a floating result, got {}",
                    whole.dtype);
  if (p.fold != Fold::sum) check_not_empty("fused_reduce", whole.shape, p.reduce.axes);
  add_reduced(out, whole.shape, p.reduce.axes, p.reduce.keepdim, whole.dtype);
}

struct ComposedState : KernelState {
  TensorSpec whole;
  std::shared_ptr<const Prepared> program;
  std::shared_ptr<const Prepared> reduction;
  size_t after_whole = 0;  ///< where the kernels' own memory begins
};

std::shared_ptr<ComposedState> prepare(const FusedReduceParams& p, const Specs& s) {
  constexpr size_t kAlignment = 256;
  auto state = std::make_shared<ComposedState>();
  state->whole = reduced_tensor(*p.program, s.in);
  const Device device = s.out[0].device;
  const FusedParams program{p.program};
  state->program = select(fused_op(), ParamsRef::of(program), {s.in, {&state->whole, 1}}, device);
  state->reduction =
      select(reduction_op(p.fold), ParamsRef::of(p.reduce), {{&state->whole, 1}, s.out}, device);
  check(!state->program->needs_copies() && !state->reduction->needs_copies(),
        "fused_reduce: a kernel wants copies");
  const auto bytes = static_cast<size_t>(state->whole.numel()) * size_of(state->whole.dtype);
  state->after_whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  state->workspace_bytes = state->after_whole + std::max(state->program->state->workspace_bytes,
                                                         state->reduction->state->workspace_bytes);
  return state;
}

void run(const FusedReduceParams& p, const ComposedState& state, const Call& c) {
  const Arg whole{c.workspace, &state.whole};
  void* const rest = static_cast<std::byte*>(c.workspace) + state.after_whole;
  const FusedParams program{p.program};
  state.program->run(&program, {c.in, {&whole, 1}, rest, c.encoder});
  state.reduction->run(&p.reduce, {{&whole, 1}, c.out, rest, c.encoder});
}

}  // namespace

const OpDef& reduction_op(Fold fold) { return find_op(print_field(fold)); }

TensorSpec reduced_tensor(const Program& program, std::span<const TensorSpec> in) {
  const size_t last = static_cast<size_t>(program.inputs) + static_cast<size_t>(program.outputs[0]);
  TensorSpec spec = program.infer(in)[last];
  spec.strides = contiguous_strides(spec.shape);
  return spec;
}

std::optional<ReducedRows> rows_of(const Shape& shape, const Dims& axes) {
  ReducedRows rows{1, 1};
  const int kept = shape.rank() - axes.rank();
  for (int i = 0; i < shape.rank(); ++i) {
    if (axes.contains(i) != (i >= kept)) return std::nullopt;
    (i < kept ? rows.count : rows.columns) *= shape[i];
  }
  return rows;
}

Kernel fused_reduce_composed_kernel() {
  Kernel k = kernel<supports_all<FusedReduceParams>, prepare, run>("composed");
  k.takes_complex = true;  // as far as the ops that it is made of do
  return k;
}

const OpDef& fused_reduce_op() {
  static OpDef def =
      Op<FusedReduceParams>("fused_reduce")
          .inputs({"x..."})
          .infer<infer>()
          .no_gradient("it exists only inside compiled functions, after the pass back")
          .cpu({fused_reduce_tiled_kernel(), fused_reduce_composed_kernel()})
          .build();
  return def;
}

}  // namespace mica
