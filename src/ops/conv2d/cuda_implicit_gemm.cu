// Convolution (+ sum) (+ activation) or (+ ReLU) (+ max-pooling) of f32 by TF32 tensor cores, with
// nothing unfolded in memory: a block keeps its part of x and of the weight in shared memory.
#include <cuda_runtime.h>

#include <algorithm>

#include "mica/op/settings.h"
#include "mica/ops/conv2d/cuda_implicit_gemm.cuh"
#include "mica/ops/conv2d/implicit_gemm.h"
#include "mica/ops/device_table.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/runtime.h"

namespace mica::implicit_gemm {
namespace {

constexpr int64_t kMostElements = 1 << 26;  // of an image of y: a chunk's places are 32-bit

struct ForwardState : KernelState {
  ForwardPlan plan;
};

Target target_of(const Specs& specs) {
  const int device = specs.out[0].device.index;
  int bytes = 0;
  cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  return {runtime(DeviceKind::cuda).encoder(device)->multiprocessors(), static_cast<size_t>(bytes)};
}

void launch(const ForwardPlan& p, const Call& c) {
  const ProgrammaticLaunch overlap;
  const auto launch = [&](auto kernel) {
    c.encoder->launch(
        kernel, dim3(static_cast<unsigned>(p.grid), static_cast<unsigned>(p.channel_blocks)),
        static_cast<unsigned>(p.warps * 32), p.shared_bytes, p, c.in[0].as<const float>(),
        c.in[1].as<const float>(), c.in[2].defined() ? c.in[2].as<const float>() : nullptr,
        c.out[0].as<float>(), p.pool ? c.out[1].as<int>() : nullptr,
        p.added ? c.in[3].as<const float>() : nullptr);
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
  if (specs.out[0].dtype != DType::f32) return Support::no("computes f32 only");
  if (!allow_tf32()) return Support::no("TF32 is not allowed");
  if (is_for_library(problem.conv, specs.out[0].device))
    return Support::no("large enough for the library");
  if (specs.out[0].numel() / std::max<int64_t>(problem.conv.n, 1) > kMostElements)
    return Support::no("an image is too large");
  if (specs.out.size() > 1 && specs.out[0].strides != specs.out[1].strides)
    return Support::no("results of two layouts");
  if (problem.added && specs.in[3].strides != specs.out[0].strides)
    return Support::no("what is added does not lie like the result");
  const std::string reason = forward_refusal(problem.conv, problem.pool ? &*problem.pool : nullptr);
  if (!reason.empty()) return Support::no(reason);
  return Support::yes().with_contiguous(0b111);
}

std::vector<Candidate> forward_candidates(const ForwardProblem& problem, const Specs& specs,
                                          const CandidateRequest& request) {
  const Strides& y = specs.out[0].strides;
  const size_t most = request.count(kMostCandidates);
  std::vector<Candidate> found;
  for (ForwardPlan& p : forward_plans(problem.conv, problem.pool ? &*problem.pool : nullptr,
                                      target_of(specs), most)) {
    p.activation = problem.activation;
    p.added = problem.added;
    p.y_image_stride = y[0];
    p.y_image = static_cast<int>(y[0]);
    p.y_channel = static_cast<int>(y[1]);
    p.y_row = static_cast<int>(y[2]);
    p.y_col = static_cast<int>(y[3]);
    auto state = std::make_shared<ForwardState>();
    state->plan = p;
    add_candidate(found, request, {name_of(p), p.cost, std::move(state)});
  }
  return found;
}

void run_forward(const KernelState& state, const Call& call) {
  launch(static_cast<const ForwardState&>(state).plan, call);
}

}  // namespace mica::implicit_gemm
