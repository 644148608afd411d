#include "mica/ops/conv2d/cpu_onednn.h"

#include "mica/ops/conv/shape.h"

// A convolution with a program that the library computes as it goes.
namespace mica {

const OpDef& conv2d_op();

namespace {

const Conv2dParams& conv_of(const AnchoredParams& params) {
  return params.call->params.as<Conv2dParams>();
}

std::optional<onednn::PostOps> post_ops(const AnchoredParams& params, const Specs& specs) {
  return onednn::post_ops_of(params, conv2d_op(), specs, [&](const TensorSpec& s) {
    return conv2d_onednn_operand(conv_of(params), specs, s);
  });
}

Support supports(const AnchoredParams& params, const Specs& specs) {
  if (params.call->op != &conv2d_op()) return Support::no("it carries programs after conv2d");
  if (specs.in[0].dtype != DType::f32) return Support::no("computes f32 only");
  Support support = supports_conv2d_onednn(conv_of(params), specs);
  if (support.kind == Support::Kind::no) return support;
  if (!post_ops(params, specs)) return Support::no("the library has no such program");
  for (int k = 1; k <= params.call->more_after(); ++k) {
    const int input = params.call->input_after(k);
    const bool last = works_channels_last(specs.out[0], specs.in[0]);
    if (specs.in[static_cast<size_t>(input)].shape == specs.out[0].shape)
      (last ? support.channels_last : support.contiguous).insert(input);
  }
  return support;
}

std::shared_ptr<onednn::State> prepare(const AnchoredParams& params, const Specs& specs) {
  onednn::Convolution c = conv2d_onednn_problem(conv_of(params), specs);
  c.after = *post_ops(params, specs);
  return onednn::prepare(c, onednn::Direction::forward);
}

void run(const AnchoredParams&, const onednn::State& state, const Call& call) {
  onednn::run_forward(state, call);
}
void keep(const AnchoredParams&, const onednn::State& state, const Call& call) {
  onednn::keep_weight(state, call);
}

}  // namespace

Kernel conv2d_carrying_onednn_kernel() {
  return kernel<supports, prepare, run, keep>("conv2d_onednn");
}

}  // namespace mica
