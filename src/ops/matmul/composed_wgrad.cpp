// linear_wgrad as the product and the sum that it stands for, by the kernels of those.
#include <utility>

#include "mica/op/composed.h"
#include "mica/ops/matmul/problem.h"
#include "mica/ops/reduce/reduce.h"

namespace mica {

const OpDef& matmul_op();
const OpDef& sum_op();

namespace {

std::shared_ptr<ComposedState> prepare(const NoParams&, const Specs& specs) {
  auto state = std::make_shared<ComposedState>(specs);
  TensorSpec transposed = specs.in[0];
  std::swap(transposed.shape[0], transposed.shape[1]);
  std::swap(transposed.strides[0], transposed.strides[1]);
  const int dy = state->view(state->in(0), transposed);
  state->add(matmul_op(), NoParams{}, {dy, state->in(1)}, {state->out(0)});
  state->add(sum_op(), ReduceParams{.axes = {0}}, {state->in(0)}, {state->out(1)});
  return state;
}

void run(const NoParams&, const ComposedState& state, const Call& call) { state.run(call); }

}  // namespace

Kernel linear_wgrad_composed_kernel() {
  return kernel<supports_all<NoParams>, prepare, run>("composed");
}

}  // namespace mica
