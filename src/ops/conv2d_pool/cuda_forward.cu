// Convolution (+ ReLU) (+ max-pooling) of f32 by TF32 tensor cores, with nothing unfolded in
// memory: a block keeps its part of x and of the weight in shared memory.
#include <cuda_runtime.h>

#include <algorithm>
#include <optional>

#include "mica/op/cuda_trial.h"
#include "mica/op/settings.h"
#include "mica/ops/conv2d_act/conv2d_act.h"
#include "mica/ops/conv2d_pool/cuda_forward.cuh"
#include "mica/ops/conv2d_pool/cuda_kernels.h"
#include "mica/ops/conv2d_pool/kernels.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace implicit_gemm {
namespace {

constexpr int64_t kMostElements = 1 << 26;  // of an image of y: a chunk's places are 32-bit

struct State : KernelState {
  ForwardPlan plan;
};

/// What the three ops ask for.
struct Problem {
  Conv2dGeometry conv;
  std::optional<Pool2dGeometry> pool;
  bool relu = false;
};

Problem problem(const Conv2dParams& p, const Specs& specs) {
  return {conv2d_geometry("conv2d", p, specs.in[0].shape, specs.in[1].shape), {}, false};
}
Problem problem(const Conv2dActParams& p, const Specs& specs) {
  return {conv2d_geometry("conv2d_act", p.conv, specs.in[0].shape, specs.in[1].shape),
          {},
          p.activation == Activation::relu};
}
Problem problem(const Conv2dPoolParams& p, const Specs& specs) {
  const auto g =
      conv2d_pool_geometry("conv2d_pool", p.conv, p.pool, specs.in[0].shape, specs.in[1].shape);
  return {g.conv, g.pool, p.relu};
}

bool has_kernel(const Conv2dParams&, const Specs&) { return true; }
bool has_kernel(const Conv2dActParams& p, const Specs& specs) {
  return p.activation != Activation::gelu && !specs.in[3].defined;
}
bool has_kernel(const Conv2dPoolParams&, const Specs&) { return true; }

Target target_of(const Specs& specs) {
  const int device = specs.out[0].device.index;
  int bytes = 0;
  cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  return {runtime(DeviceKind::cuda).encoder(device)->multiprocessors(), static_cast<size_t>(bytes)};
}

std::vector<ForwardPlan> plans_of(const Problem& q, const Specs& specs, std::string& reason,
                                  size_t most = 1) {
  return forward_plans(q.conv, q.pool ? &*q.pool : nullptr, q.relu, target_of(specs), most, reason);
}

template <class P>
Support supports(const P& params, const Specs& specs) {
  if (specs.out[0].dtype != DType::f32) return Support::no("computes f32 only");
  if (!allow_tf32()) return Support::no("TF32 is not allowed");
  if (!has_kernel(params, specs))
    return Support::no("an activation other than ReLU, or a residual");
  const Problem q = problem(params, specs);
  if (std::is_same_v<P, Conv2dParams> && !is_row_major(specs))
    return Support::no("an input is not row-major");
  if (large_enough_for_the_library(q.conv)) return Support::no("large enough for the library");
  if (specs.out[0].numel() / std::max<int64_t>(q.conv.n, 1) > kMostElements)
    return Support::no("an image is too large");
  if (specs.out.size() > 1 && specs.out[0].strides != specs.out[1].strides)
    return Support::no("results of two layouts");
  std::string reason;
  if (plans_of(q, specs, reason).empty()) return Support::no(reason);
  return Support::yes().with_contiguous(0b111);
}

void launch(const ForwardPlan& p, const Call& c) {
  const LaunchAhead ahead;
  const auto launch = [&](auto kernel) {
    c.encoder->launch(
        kernel, dim3(static_cast<unsigned>(p.grid), static_cast<unsigned>(p.channel_blocks)),
        static_cast<unsigned>(p.warps * 32), p.shared_bytes, p, c.in[0].as<const float>(),
        c.in[1].as<const float>(), c.in[2].defined() ? c.in[2].as<const float>() : nullptr,
        c.out[0].as<float>(), p.pool ? c.out[1].as<int>() : nullptr);
  };
  const auto with = [&]<int NT>() {
    p.pool ? launch(conv_forward<NT, true>) : launch(conv_forward<NT, false>);
  };
  switch (p.tiles_n) {
    case 2:
      return with.template operator()<2>();
    case 3:
      return with.template operator()<3>();
    case 4:
      return with.template operator()<4>();
    case 7:
      return with.template operator()<7>();
    default:
      return with.template operator()<8>();
  }
}

std::string name_of(const ForwardPlan& p) {
  return way_name({p.images, p.rows, p.tiles_n, p.block_tiles, p.split, p.warps});
}

template <class P>
std::shared_ptr<State> prepare(const P& params, const Specs& specs) {
  std::string reason;
  const Problem q = problem(params, specs);
  std::vector<ForwardPlan> plans = plans_of(q, specs, reason, ways_to_time());
  const Strides& y = specs.out[0].strides;
  std::vector<KernelWay> ways;
  for (ForwardPlan& p : plans) {
    p.y_image_stride = y[0];
    p.y_image = static_cast<int>(y[0]);
    p.y_channel = static_cast<int>(y[1]);
    p.y_row = static_cast<int>(y[2]);
    p.y_col = static_cast<int>(y[3]);
    ways.push_back({name_of(p), 0, [&p](const Call& c) { launch(p, c); }});
  }
  const std::string key = ParamsRef::of(params).info->print(&params) + to_string(specs.in[0]) +
                          to_string(specs.in[1]) + to_string(specs.out[0]);
  auto state = std::make_shared<State>();
  state->plan = plans.at(fastest_way("implicit_gemm", key, specs, ways));
  return state;
}

template <class P>
void run(const P&, const State& state, const Call& c) {
  launch(state.plan, c);
}

template <class P>
Kernel implicit_gemm_kernel() {
  return kernel<supports<P>, prepare<P>, run<P>>("implicit_gemm");
}

}  // namespace
}  // namespace implicit_gemm

Kernel conv2d_pool_implicit_gemm_kernel() {
  return implicit_gemm::implicit_gemm_kernel<Conv2dPoolParams>();
}
Kernel conv2d_act_implicit_gemm_kernel() {
  return implicit_gemm::implicit_gemm_kernel<Conv2dActParams>();
}
Kernel conv2d_implicit_gemm_kernel() { return implicit_gemm::implicit_gemm_kernel<Conv2dParams>(); }

}  // namespace mica
