#include "mica/ops/conv2d/cpu_onednn.h"

#include "mica/ops/conv/shape.h"
#include "mica/ops/conv2d_act/conv2d_act.h"

namespace mica {
namespace {

Support supports(const Conv2dActParams& params, const Specs& specs) {
  Support support = supports_conv2d_onednn(params.conv, specs);
  constexpr uint32_t kResidual = 0b1000;
  (works_channels_last(specs.out[0], specs.in[0]) ? support.channels_last : support.contiguous) |=
      kResidual;
  return support;
}

std::shared_ptr<onednn::State> prepare(const Conv2dActParams& params, const Specs& specs) {
  onednn::Convolution c = conv2d_onednn_problem(params.conv, specs);
  c.residual = specs.in[3].defined;
  c.activation = params.activation;
  return onednn::prepare(c, onednn::Direction::forward);
}

void run(const Conv2dActParams&, const onednn::State& state, const Call& call) {
  onednn::run_forward(state, call);
}

}  // namespace

Kernel conv2d_act_onednn_kernel() { return kernel<supports, prepare, run>("onednn"); }

}  // namespace mica
