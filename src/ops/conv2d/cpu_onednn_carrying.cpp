#include "mica/ops/conv2d/cpu_onednn.h"

#include "mica/ops/anchored/program_pass.h"
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

/// As the convolution alone has them.
Specs own_specs(const AnchoredParams& params, const Specs& specs) {
  return {specs.in, specs.out.subspan(result_place(*params.call))};
}

Support supports(const AnchoredParams& params, const Specs& specs) {
  const Anchored& a = *params.call;
  if (a.op != &conv2d_op() || a.before.program || !a.after.program)
    return Support::no("it carries programs after conv2d");
  const Specs own = own_specs(params, specs);
  Support support = supports_conv2d_onednn(conv_of(params), own);
  if (support.kind == Support::Kind::no) return support;
  for (int k = 1; k <= a.more_after(); ++k) {
    const int input = a.input_after(k);
    const bool last = works_channels_last(own.out[0], specs.in[0]);
    if (specs.in[static_cast<size_t>(input)].shape == own.out[0].shape)
      (last ? support.channels_last : support.contiguous).insert(input);
  }
  return support;
}

/// What the library does not compute as it goes, or slowly, goes over its result.
struct State : onednn::State {
  explicit State(const onednn::State& state) : onednn::State(state) {}
  std::optional<ProgramPass> pass;
};

std::shared_ptr<State> prepare(const AnchoredParams& params, const Specs& specs) {
  onednn::Convolution c = conv2d_onednn_problem(conv_of(params), own_specs(params, specs));
  std::optional<ProgramPass> pass;
  if (auto post = post_ops(params, specs); post && !post->costly) {
    c.after = std::move(*post);
  } else {
    pass.emplace(params, specs);
  }
  auto state = std::make_shared<State>(*onednn::prepare(c, onednn::Direction::forward));
  state->pass = std::move(pass);
  return state;
}

void run(const AnchoredParams& params, const State& state, const Call& call) {
  onednn::run_forward(state, {call.in, call.out.subspan(result_place(*params.call)), call.workspace,
                              call.encoder, call.kept});
  if (state.pass) state.pass->run(params, call);
}
void keep(const AnchoredParams&, const State& state, const Call& call) {
  onednn::keep_weight(state, call);
}

}  // namespace

Kernel conv2d_carrying_onednn_kernel() {
  return kernel<supports, prepare, run, keep>("conv2d_onednn");
}

}  // namespace mica
