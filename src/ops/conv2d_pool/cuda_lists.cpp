// Convolutions joined with their pooling by implicit GEMM, as ops/conv2d computes it, else the ops
// that they are made of.
#include "mica/ops/conv2d/implicit_gemm.h"
#include "mica/ops/conv2d_pool/kernels.h"

namespace mica {
namespace {

using namespace implicit_gemm;

ForwardProblem forward_problem(const Conv2dPoolParams& p, const Specs& s) {
  const auto g = conv2d_pool_geometry("conv2d_pool", p.conv, p.pool, s.in[0].shape, s.in[1].shape);
  return {g.conv, g.pool, p.relu};
}

DgradProblem dgrad_problem(const Conv2dPoolGradParams& p, const Specs& s) {
  const auto g = conv2d_pool_geometry("conv2d_pool_dgrad", p.conv, p.pool, p.shape, s.in[2].shape);
  return {g.conv, g.pool};
}

WgradProblem wgrad_problem(const Conv2dPoolGradParams& p, const Specs& s) {
  const auto g = conv2d_pool_geometry("conv2d_pool_wgrad", p.conv, p.pool, s.in[2].shape, p.shape);
  if (!s.in[1].defined) return {g.conv, {}, p.bias};
  return {g.conv, g.pool, p.bias};
}

Support supports(const Conv2dPoolParams& p, const Specs& s) {
  return supports_forward(forward_problem(p, s), s);
}
std::vector<Candidate> candidates(const Conv2dPoolParams& p, const Specs& s,
                                  const CandidateRequest& request) {
  return forward_candidates(forward_problem(p, s), s, request);
}
void run(const Conv2dPoolParams&, const KernelState& state, const Call& call) {
  run_forward(state, call);
}

Support supports_pooled_dgrad(const Conv2dPoolGradParams& p, const Specs& s) {
  return supports_dgrad(dgrad_problem(p, s), s);
}
std::vector<Candidate> pooled_dgrad_candidates(const Conv2dPoolGradParams& p, const Specs& s,
                                               const CandidateRequest& request) {
  return dgrad_candidates(dgrad_problem(p, s), s, request);
}
void run_pooled_dgrad(const Conv2dPoolGradParams&, const KernelState& state, const Call& call) {
  run_dgrad(state, call);
}

Support supports_pooled_wgrad(const Conv2dPoolGradParams& p, const Specs& s) {
  if (!s.in[1].defined && !is_row_major(s)) return Support::no("an input is not row-major");
  return supports_wgrad(wgrad_problem(p, s), s);
}
std::vector<Candidate> pooled_wgrad_candidates(const Conv2dPoolGradParams& p, const Specs& s,
                                               const CandidateRequest& request) {
  return wgrad_candidates(wgrad_problem(p, s), s, request);
}
void run_pooled_wgrad(const Conv2dPoolGradParams&, const KernelState& state, const Call& call) {
  run_wgrad(state, call);
}

}  // namespace

KernelList conv2d_pool_cuda_kernels() {
  return {kernel_with_candidates<supports, candidates, run>("implicit_gemm"),
          conv2d_pool_composed_kernel()};
}

KernelList conv2d_pool_dgrad_cuda_kernels() {
  return {kernel_with_candidates<supports_pooled_dgrad, pooled_dgrad_candidates, run_pooled_dgrad>(
              "implicit_gemm"),
          conv2d_pool_dgrad_composed_kernel()};
}

KernelList conv2d_pool_wgrad_cuda_kernels() {
  return {kernel_with_candidates<supports_pooled_wgrad, pooled_wgrad_candidates, run_pooled_wgrad>(
              "implicit_gemm"),
          conv2d_pool_wgrad_composed_kernel()};
}

}  // namespace mica
