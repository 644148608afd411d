// Convolution (+ ReLU) (+ max-pooling), or + any program, of f32 by TF32 tensor cores, with nothing
// unfolded in memory: a block keeps its part of x and of the weight in shared memory.
#include <cuda_runtime.h>

#include <algorithm>

#include "mica/op/settings.h"
#include "mica/ops/anchored/cuda_carried.h"
#include "mica/ops/conv2d/cuda_implicit_gemm.cuh"
#include "mica/ops/conv2d/cuda_implicit_gemm_plan.h"
#include "mica/ops/conv2d/implicit_gemm.h"
#include "mica/ops/device_table.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/runtime.h"

namespace mica::implicit_gemm {
namespace {

constexpr int64_t kMostElements = 1 << 26;  // of an image of y: a chunk's places are 32-bit

struct ForwardState : KernelState {
  ForwardPlan plan;
  CarriedKernel carried;  ///< where a program follows
};

template <int NT, bool kPool>
__global__ void __launch_bounds__(kMostWarps * 32)
    conv_forward_known(const __grid_constant__ ForwardPlan p, const float* __restrict__ x,
                       const float* __restrict__ weight, const float* __restrict__ bias,
                       ForwardEnd end) {
  conv_forward<NT, kPool>(p, x, weight, bias, end);
}

Target target_of(const Specs& specs) {
  const int device = specs.out[0].device.index;
  int bytes = 0;
  cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  return {runtime(DeviceKind::cuda).encoder(device)->multiprocessors(), static_cast<size_t>(bytes)};
}

template <class End>
using ForwardKernel = void (*)(ForwardPlan, const float*, const float*, const float*, End);

template <class End>
void launch(const ForwardPlan& p, const Call& c, ForwardKernel<End> kernel, const End& end) {
  const ProgrammaticLaunch overlap;
  c.encoder->launch(
      kernel, dim3(static_cast<unsigned>(p.grid), static_cast<unsigned>(p.channel_blocks)),
      static_cast<unsigned>(p.warps * 32), p.shared_bytes, p, c.in[0].as<const float>(),
      c.in[1].as<const float>(), c.in[2].defined() ? c.in[2].as<const float>() : nullptr, end);
}

ForwardKernel<ForwardEnd> known_kernel(const ForwardPlan& p) {
  const auto with = [&]<int NT>() -> ForwardKernel<ForwardEnd> {
    return p.pool ? conv_forward_known<NT, true> : conv_forward_known<NT, false>;
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

CarriedKernel carried_kernel(const AnchoredParams& program, const ForwardPlan& p,
                             const Specs& specs) {
  return load_carried(
      program, specs,
      {.header = "mica/ops/conv2d/cuda_implicit_gemm.cuh",
       .parameters = "const __grid_constant__ mica::implicit_gemm::ForwardPlan p, const float* x, "
                     "const float* weight, const float* bias",
       .body = (TemplateCall("mica::implicit_gemm::conv_forward") << p.tiles_n << false).text() +
               "(p, x, weight, bias, Carried{end});",
       .bounds = std::to_string(kMostWarps * 32)});
}

std::string name_of(const ForwardPlan& p) {
  return candidate_name({p.images, p.rows, p.tiles_n, p.block_tiles, p.split, p.warps});
}

}  // namespace

bool is_for_library(const Conv2dGeometry& g, Device device) {
  const DeviceTable::ImplicitGemm& limits = device_table(device).implicit_gemm;
  return g.window() * g.o > limits.most_weights || g.h * g.w > limits.most_pixels ||
         g.pixels() > limits.most_pixels;
}

bool is_row_major(const Specs& specs) {
  return std::all_of(specs.in.begin(), specs.in.end(),
                     [](const TensorSpec& s) { return !s.defined || s.is_contiguous(); });
}

Support supports_forward(const ForwardProblem& problem, const Specs& specs) {
  if (specs.in[0].dtype != DType::f32) return Support::no("computes f32 only");
  if (!allow_tf32()) return Support::no("TF32 is not allowed");
  if (is_for_library(problem.conv, specs.out[0].device))
    return Support::no("large enough for the library");
  if (specs.out[0].numel() / std::max<int64_t>(problem.conv.n, 1) > kMostElements)
    return Support::no("an image is too large");
  if (specs.out.size() > 1 && specs.out[0].strides != specs.out[1].strides)
    return Support::no("results of two layouts");
  const std::string reason = forward_refusal(problem.conv, problem.pool ? &*problem.pool : nullptr);
  if (!reason.empty()) return Support::no(reason);
  return Support::yes().with_contiguous(0b111);
}

std::vector<Candidate> forward_candidates(const ForwardProblem& problem, const Specs& specs,
                                          const CandidateRequest& request) {
  const Strides& y = specs.out[0].strides;
  const size_t most = request.count(problem.program ? kMostCompiled : kMostCandidates);
  std::vector<Candidate> found;
  for (ForwardPlan& p : forward_plans(problem.conv, problem.pool ? &*problem.pool : nullptr,
                                      target_of(specs), most)) {
    p.relu = problem.relu;
    p.y_image_stride = y[0];
    p.y_image = static_cast<int>(y[0]);
    p.y_channel = static_cast<int>(y[1]);
    p.y_row = static_cast<int>(y[2]);
    p.y_col = static_cast<int>(y[3]);
    if (!request.only.empty() && request.only != name_of(p)) continue;
    auto state = std::make_shared<ForwardState>();
    state->plan = p;
    if (problem.program) state->carried = carried_kernel(*problem.program, p, specs);
    add_candidate(found, request, {name_of(p), p.cost, std::move(state)});
  }
  return found;
}

void run_forward(const KernelState& kernel_state, const Call& call) {
  const ForwardPlan& p = static_cast<const ForwardState&>(kernel_state).plan;
  launch(p, call, known_kernel(p),
         {call.out[0].as<float>(), p.pool ? call.out[1].as<int>() : nullptr});
}

void run_forward_carrying(const AnchoredParams& params, const KernelState& kernel_state,
                          const Call& call) {
  const auto& state = static_cast<const ForwardState&>(kernel_state);
  if (!state.carried.kernel) return run_forward(kernel_state, call);
  launch(state.plan, call, reinterpret_cast<ForwardKernel<fused::KernelArgs>>(state.carried.kernel),
         state.carried.arguments(params, call));
}

}  // namespace mica::implicit_gemm
