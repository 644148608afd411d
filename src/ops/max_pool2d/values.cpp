// Max pooling whose positions nobody reads, as in inference: where there is a kernel that leaves
// them out it takes the place of the other.
#include "mica/op/composed.h"
#include "mica/op/pattern.h"
#include "mica/ops/max_pool2d/geometry.h"

namespace mica {

const OpDef& max_pool2d_op();
const OpDef& max_pool2d_values_op();

namespace {

void infer(const MaxPool2dParams& params, std::span<const TensorSpec> in, OutSpecs& out) {
  out.add(pool2d_geometry("max_pool2d", params, in[0].shape).y_shape(), in[0].dtype);
}

std::shared_ptr<ComposedState> prepare(const MaxPool2dParams& params, const Specs& specs) {
  auto state = std::make_shared<ComposedState>(specs);
  const TensorSpec& y = specs.out[0];
  const int positions = state->temporary(y.shape, DType::i32, y);
  state->add(max_pool2d_op(), params, {state->in(0)}, {state->out(0), positions});
  return state;
}

void run(const MaxPool2dParams&, const ComposedState& state, const Call& call) { state.run(call); }

}  // namespace

Kernel max_pool2d_values_composed_kernel() {
  return kernel<supports_all<MaxPool2dParams>, prepare, run>("composed");
}

const OpDef& max_pool2d_values_op() {
  static OpDef def = Op<MaxPool2dParams>("max_pool2d_values")
                         .inputs({"x"})
                         .formats({Format::images}, {Format::images})
                         .dtypes(kFloatDTypes)
                         .infer<infer>()
                         .no_gradient("it exists inside compiled functions, where no gradient is")
                         .cpu({max_pool2d_values_composed_kernel()})
                         .build();
  return def;
}

/// Images that its kernels are for: conv2d_pool joins others, positions and all.
std::optional<MatchedCall> without_positions(const Match& match) {
  const MatchedCall& pool = match.calls[0];
  const TensorSpec& y = match.spec(pool.out[0]);
  if (size_of(y.dtype) != 2 || !y.is_channels_last_dense() || !match.goes(pool.out[1]))
    return std::nullopt;
  return MatchedCall{&max_pool2d_values_op(), pool.params, pool.in, {pool.out[0]}};
}

}  // namespace mica
