#include "mica/ops/conv/cpu_onednn.h"

#include "mica/op/settings.h"
#include "mica/ops/conv3d/geometry.h"

namespace mica {
namespace {

using onednn::Convolution;
using onednn::Direction;
using onednn::State;

Convolution describe(const Conv3dGeometry& g, bool bias) {
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

Conv3dGeometry forward(const Conv3dParams& params, const Specs& specs) {
  return conv3d_geometry("conv3d", params, specs.in[0].shape, specs.in[1].shape);
}
Conv3dGeometry dgrad(const Conv3dGradParams& params, const Specs& specs) {
  return conv3d_geometry("conv3d_dgrad", params.conv, params.shape, specs.in[1].shape);
}
Conv3dGeometry wgrad(const Conv3dGradParams& params, const Specs& specs) {
  return conv3d_geometry("conv3d_wgrad", params.conv, specs.in[1].shape, params.shape);
}

// Only the forward call has a bias.
Convolution describe(const Conv3dGeometry& g, const Specs& specs) {
  Convolution c = describe(g, specs.in.size() > 2 && specs.in[2].defined);
  c.type = onednn::type_of(specs);
  return c;
}

// Both kernels multiply matrices, and vol2col does so faster until windows are wide, where there
// are images enough for the threads: GFLOP/s of oneDNN and vol2col with one thread on a Zen 4 core
// 54, 68 for 3 channels of 16x56x56 and 3x3x3, 53, 66 for 16 channels, 78, 74 for 64; 1x1x1
// 101, 76.
Support rate(const Conv3dGeometry& g) {
  const bool larger = g.kernel.d * g.kernel.h * g.kernel.w > 1;
  return larger && g.window() < 1024 && g.n >= num_threads() ? Support::possible() : Support::yes();
}

template <auto geometry, Direction direction, class P>
Support supports(const P& params, const Specs& specs) {
  const Conv3dGeometry g = geometry(params, specs);
  if (const auto why = onednn::refusal(specs)) return Support::no(*why);
  return rate(g).with_contiguous(7);
}

template <auto geometry, Direction direction, class P>
std::shared_ptr<State> prepare_as(const P& params, const Specs& specs) {
  return prepare(describe(geometry(params, specs), specs), direction);
}

template <auto run_fn, class P>
void run(const P&, const State& state, const Call& call) {
  run_fn(state, call);
}

template <class P, auto geometry, Direction direction, auto run_fn>
Kernel make() {
  return kernel<supports<geometry, direction, P>, prepare_as<geometry, direction, P>,
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
