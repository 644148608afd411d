#include "mica/ops/conv/cpu_onednn.h"

#include "mica/ops/conv3d/geometry.h"

namespace mica {
namespace {

using onednn::Convolution;
using onednn::Direction;
using onednn::State;

Convolution describe(const Conv3dGeometry& g, bool bias = false) {
  Convolution c;
  c.x = {g.n, g.c, g.in.d, g.in.h, g.in.w};
  c.weight = {g.group_out(), g.group_in(), g.kernel.d, g.kernel.h, g.kernel.w};
  if (g.groups > 1) c.weight.insert(c.weight.begin(), g.groups);
  c.y = {g.n, g.o, g.out.d, g.out.h, g.out.w};
  c.stride = {g.stride.d, g.stride.h, g.stride.w};
  c.padding = {g.padding.d, g.padding.h, g.padding.w};
  c.dilation = {g.dilation.d - 1, g.dilation.h - 1, g.dilation.w - 1};  // oneDNN's 0 is none
  c.bias = bias;
  return c;
}

Convolution forward(const Conv3dParams& params, const Specs& specs) {
  return describe(conv3d_geometry("conv3d", params, specs.in[0].shape, specs.in[1].shape),
                  specs.in[2].defined);
}
Convolution dgrad(const Conv3dGradParams& params, const Specs& specs) {
  return describe(conv3d_geometry("conv3d_dgrad", params.conv, params.shape, specs.in[1].shape));
}
Convolution wgrad(const Conv3dGradParams& params, const Specs& specs) {
  return describe(conv3d_geometry("conv3d_wgrad", params.conv, specs.in[1].shape, params.shape));
}

template <auto convolution, Direction direction, class P>
Support supports(const P& params, const Specs& specs) {
  if (const auto why = refusal(convolution(params, specs), direction, specs))
    return Support::no(*why);
  return Support::yes().with_contiguous(7);
}

template <auto convolution, Direction direction, class P>
std::shared_ptr<State> prepare_as(const P& params, const Specs& specs) {
  return prepare(convolution(params, specs), direction);
}

template <auto run_fn, class P>
void run(const P&, const State& state, const Call& call) {
  run_fn(state, call);
}

template <class P, auto convolution, Direction direction, auto run_fn>
Kernel make() {
  return kernel<supports<convolution, direction, P>, prepare_as<convolution, direction, P>,
                run<run_fn, P>>("onednn");
}

}  // namespace

Kernel conv3d_onednn_kernel() {
  return make<Conv3dParams, forward, Direction::forward, onednn::run_forward>();
}
Kernel conv3d_dgrad_onednn_kernel() {
  return make<Conv3dGradParams, dgrad, Direction::dgrad, onednn::run_dgrad>();
}
Kernel conv3d_wgrad_onednn_kernel() {
  return make<Conv3dGradParams, wgrad, Direction::wgrad, onednn::run_wgrad>();
}

}  // namespace mica
