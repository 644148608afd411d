#include "mica/ops/cross_entropy/composed.h"

#include <algorithm>
#include <vector>

#include "mica/op/select.h"
#include "mica/ops/cross_entropy/cross_entropy.h"
#include "mica/ops/fill/fill.h"

namespace mica {
namespace {

constexpr size_t kAlignment = 256;

/// The two ops, and a 1 as the gradient of the loss. The workspace holds that number, each row's
/// logsumexp and what the ops want.
struct ComposedState : KernelState {
  FullParams full;
  std::shared_ptr<const Prepared> one, loss, grad;
  TensorSpec number, per_row;
  size_t per_row_at = 0;
  size_t rest_at = 0;
};

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

Support supports(const CrossEntropyParams&, const Specs&) {
  return Support::yes().with_contiguous(0b11);
}

std::shared_ptr<ComposedState> prepare(const CrossEntropyParams& params, const Specs& specs) {
  const TensorSpec& logits = specs.in[0];
  const TensorSpec& target = specs.in[1];
  auto state = std::make_shared<ComposedState>();
  state->number = specs.out[0];
  state->per_row =
      TensorSpec::contiguous({logits.shape[0]}, state->number.dtype, state->number.device);
  state->full = {{}, 1, state->number.dtype, state->number.device};
  const auto ready = [&](const char* op, ParamsRef p, const std::vector<TensorSpec>& in,
                         const std::vector<TensorSpec>& out) {
    return select(find_op(op), p, {in, out}, logits.device);
  };
  state->one = ready("full", ParamsRef::of(state->full), {}, {state->number});
  state->loss = ready("cross_entropy", ParamsRef::of(params), {logits, target},
                      {specs.out[0], state->per_row});
  state->grad = ready("cross_entropy_grad", ParamsRef::of(params),
                      {state->number, logits, target, state->per_row}, {specs.out[1]});
  const size_t element = size_of(state->number.dtype);
  state->per_row_at = kAlignment;
  state->rest_at =
      state->per_row_at + aligned(static_cast<size_t>(state->per_row.numel()) * element);
  state->workspace_bytes = state->rest_at + std::max({state->one->state->workspace_bytes,
                                                      state->loss->state->workspace_bytes,
                                                      state->grad->state->workspace_bytes});
  return state;
}

void run(const CrossEntropyParams& params, const ComposedState& state, const Call& call) {
  auto* workspace = static_cast<std::byte*>(call.workspace);
  void* rest = workspace + state.rest_at;
  const Arg one{workspace, &state.number};
  const Arg logsumexp{workspace + state.per_row_at, &state.per_row};
  const auto go = [&](const Prepared& op, const void* p, std::initializer_list<Arg> in,
                      std::initializer_list<Arg> out) { op.run(p, {in, out, rest, call.encoder}); };
  go(*state.one, &state.full, {}, {one});
  go(*state.loss, &params, {call.in[0], call.in[1]}, {call.out[0], logsumexp});
  go(*state.grad, &params, {one, call.in[0], call.in[1], logsumexp}, {call.out[1]});
}

}  // namespace

Kernel cross_entropy_with_grad_composed_kernel() {
  return kernel<supports, prepare, run>("composed");
}

}  // namespace mica
