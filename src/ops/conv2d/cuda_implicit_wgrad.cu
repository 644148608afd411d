// Weight gradients of convolutions, also of those whose result was pooled, by TF32 tensor cores.
#include <algorithm>

#include "mica/core/error.h"
#include "mica/op/settings.h"
#include "mica/ops/conv2d/cuda_implicit_wgrad_plan.h"
#include "mica/ops/conv2d/implicit_gemm.h"
#include "mica/ops/device_table.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace implicit_wgrad {
namespace {

using Function = void (*)(Plan, const float*, const int*, const float*, float*, float*);

template <Kind K>
Function function_of(const Launch& l) {
  const auto is = [&](int tap_tiles, int channel_tiles) {
    return l.tap_tiles == tap_tiles && l.channel_tiles == channel_tiles;
  };
  if (is(1, 2)) return wgrad_tiles<1, 2, K>;
  if (is(1, 4)) return wgrad_tiles<1, 4, K>;
  if constexpr (vector_of(K) == 4) {
    if (is(2, 3)) return wgrad_tiles<2, 3, K>;
    if (is(2, 7)) return wgrad_tiles<2, 7, K>;
    if (is(3, 8)) return wgrad_tiles<3, 8, K>;
  }
  return wgrad_tiles<3, 4, K>;
}

Function function_of(const Launch& l) {
  switch (l.kind) {
    case Kind::pairs:
      return function_of<Kind::pairs>(l);
    case Kind::plain:
      return function_of<Kind::plain>(l);
    case Kind::scalar_pooled:
      return function_of<Kind::scalar_pooled>(l);
    case Kind::scalar_plain:
      break;
  }
  return function_of<Kind::scalar_plain>(l);
}

struct State : KernelState {
  Launch aligned, any;  ///< for tensors that start at multiples of 16 bytes, and for others
};

int as_int(int64_t v) { return static_cast<int>(v); }

int attribute(const Device& device, cudaDeviceAttr which) {
  int value = 0;
  cudaDeviceGetAttribute(&value, which, device.index);
  return value;
}

/// Why the convolution cannot be computed here; empty where it can, if shared memory is large
/// enough.
std::string refusal(const implicit_gemm::WgradProblem& problem, const Specs& specs) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const Conv2dGeometry& g = problem.conv;
  if (specs.out[0].dtype != DType::f32) return "computes f32 only";
  if (!allow_tf32()) return "TF32 is not allowed";
  if (g.groups != 1) return "the convolution has groups";
  if (!specs.out[0].is_contiguous()) return "the output is not row-major";
  if (specs.out[0].numel() == 0 || g.n * g.pixels() == 0) return "a tensor is empty";
  if (g.n * g.pixels() >= kMost || g.c * g.h * g.w >= kMost || g.o * g.pixels() >= kMost ||
      specs.out[0].numel() >= kMost || g.padding.w >= kMost || g.padding.h >= kMost)
    return "an image, the batch or the weight is too large";
  if (attribute(specs.out[0].device, cudaDevAttrComputeCapabilityMajor) < 8)
    return "the device has no TF32";
  if (implicit_gemm::is_for_library(g, specs.out[0].device)) return "large enough for the library";
  if (!problem.pool) return {};
  const Pool2dGeometry& pool = *problem.pool;
  if (pool.kernel != pool.stride || pool.padding != Size2(0) || pool.dilation != Size2(1))
    return "pooling windows overlap, are padded or have gaps";
  if (pool.oh * pool.kernel.h > pool.h || pool.ow * pool.kernel.w > pool.w)
    return "pooling windows reach over the edge";
  if (pool.oh * pool.ow == 0) return "a tensor is empty";
  return {};
}

Problem problem_of(const implicit_gemm::WgradProblem& problem) {
  const Conv2dGeometry& g = problem.conv;
  Problem q{};
  q.n = as_int(g.n), q.channels = as_int(g.c), q.h = as_int(g.h), q.w = as_int(g.w);
  q.out = as_int(g.o), q.oh = as_int(g.oh), q.ow = as_int(g.ow);
  q.kh = as_int(g.kh), q.kw = as_int(g.kw);
  q.stride_h = as_int(g.stride.h), q.stride_w = as_int(g.stride.w);
  q.pad_h = as_int(g.padding.h), q.pad_w = as_int(g.padding.w);
  q.dilation_h = as_int(g.dilation.h), q.dilation_w = as_int(g.dilation.w);
  q.pool_h = q.pool_w = 1;
  q.dy_h = q.oh, q.dy_w = q.ow;
  q.bias = problem.bias;
  if (!problem.pool) return q;
  q.pooled = true;
  q.pool_h = as_int(problem.pool->kernel.h), q.pool_w = as_int(problem.pool->kernel.w);
  q.dy_h = as_int(problem.pool->oh), q.dy_w = as_int(problem.pool->ow);
  return q;
}

std::vector<Launch> launches_of(Problem q, bool aligned, const Specs& specs, size_t most) {
  const Device& device = specs.out[0].device;
  q.aligned = aligned;
  std::vector<Launch> all = launches(
      q, device_table(device).wgrad, attribute(device, cudaDevAttrMultiProcessorCount),
      static_cast<size_t>(attribute(device, cudaDevAttrMaxSharedMemoryPerBlockOptin)), most);
  if (all.empty())
    throw Unsupported("implicit_gemm: a block's operands do not fit in shared memory");
  return all;
}

/// The inputs are dy, positions where it was pooled, x.
void run_launch(const Launch& l, const Call& call) {
  const bool pooled = call.in.size() == 3;
  const auto* dy = call.in[0].as<const float>();
  const auto* positions = pooled ? call.in[1].as<const int>() : nullptr;
  const auto* x = call.in[pooled ? 2 : 1].as<const float>();
  auto* dw = call.out[0].as<float>();
  auto* db = call.out.size() > 1 ? call.out[1].as<float>() : nullptr;
  const Plan& p = l.plan;
  const int weights = p.out * p.taps;
  auto* partial = static_cast<float*>(call.workspace);
  const bool parts = l.slices > 1;
  const ProgrammaticLaunch overlap;
  call.encoder->launch(function_of(l),
                       dim3(static_cast<unsigned>(l.slices), static_cast<unsigned>(p.tap_tiles),
                            static_cast<unsigned>(l.grid_channels)),
                       static_cast<unsigned>(l.threads), l.shared, p, dy, positions, x,
                       parts ? partial : dw, parts ? partial + weights : db);
  if (!parts) return;
  const int total = weights + (p.bias ? p.out : 0);
  call.encoder->launch(
      add_wgrad_parts, static_cast<unsigned>(cuda::ceil_div(total, 4 * kAddColumns)),
      dim3(kAddColumns, kAddRows), 0, weights, total, p.part_size, l.slices, partial, dw, db);
}

}  // namespace
}  // namespace implicit_wgrad

namespace implicit_gemm {

Support supports_wgrad(const WgradProblem& problem, const Specs& specs) {
  const std::string reason = implicit_wgrad::refusal(problem, specs);
  return reason.empty() ? Support::yes().with_contiguous(0b111) : Support::no(reason);
}

std::vector<Candidate> wgrad_candidates(const WgradProblem& problem, const Specs& specs,
                                        const CandidateRequest& request) {
  using implicit_wgrad::Launch;
  const size_t most = request.count(kMostCandidates);
  const implicit_wgrad::Problem q = implicit_wgrad::problem_of(problem);
  const Launch any = implicit_wgrad::launches_of(q, false, specs, 1).at(0);
  std::vector<Candidate> found;
  for (const Launch& l : implicit_wgrad::launches_of(q, true, specs, most)) {
    auto state = std::make_shared<implicit_wgrad::State>();
    state->aligned = l;
    state->any = any;
    state->workspace_bytes = std::max(l.workspace_bytes(), any.workspace_bytes());
    add_candidate(found, request,
                  {candidate_name({l.tap_tiles, l.channel_tiles, l.slices, l.plan.bands,
                                   l.plan.per_chunk, static_cast<int>(l.kind)}),
                   l.cost, std::move(state)});
  }
  return found;
}

void run_wgrad(const KernelState& state, const Call& call) {
  const auto& launches = static_cast<const implicit_wgrad::State&>(state);
  bool aligned = cuda::is_aligned(call.out[0].data, 16);
  for (const Arg& arg : call.in) aligned = aligned && cuda::is_aligned(arg.data, 16);  // or null
  implicit_wgrad::run_launch(aligned ? launches.aligned : launches.any, call);
}

}  // namespace implicit_gemm
}  // namespace mica
