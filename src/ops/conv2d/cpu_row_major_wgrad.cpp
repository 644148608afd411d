#include "mica/op/composed.h"
#include "mica/op/dispatch.h"
#include "mica/ops/conv2d/geometry.h"

// The CPU's kernels write the gradients of weights row-major. Where one lies in channels_last, as
// its weight does, it is a copy of such a gradient: a weight is small beside the images it is
// summed over.
namespace mica {

const OpDef& conv2d_wgrad_op();

namespace {

Support supports(const Conv2dGradParams& params, const Specs&) {
  return params.channels_last ? Support::yes() : Support::no("is for gradients in channels_last");
}

std::shared_ptr<ComposedState> prepare(const Conv2dGradParams& params, const Specs& specs) {
  const TensorSpec& out = specs.out[0];
  auto state = std::make_shared<ComposedState>(specs);
  const int gradient = state->temporary(out.shape, out.dtype,
                                        TensorSpec::contiguous(out.shape, out.dtype, out.device));
  state->add(conv2d_wgrad_op(), Conv2dGradParams{params.conv, params.shape},
             {state->in(0), state->in(1)}, {gradient});
  state->add(layout_copy_op(), layout_copy_params(out), {gradient}, {state->out(0)});
  return state;
}

void run(const Conv2dGradParams&, const ComposedState& state, const Call& call) { state.run(call); }

}  // namespace

Kernel conv2d_wgrad_row_major_kernel() { return kernel<supports, prepare, run>("row_major"); }

}  // namespace mica
