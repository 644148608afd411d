#include "mica/ops/conv/cuda_cudnn.h"
#include "mica/ops/conv2d/implicit_gemm.h"
#include "mica/ops/conv2d_act/conv2d_act.h"
#include "mica/ops/conv2d_act/kernels.h"

namespace mica {
namespace {

implicit_gemm::ForwardProblem problem(const Conv2dActParams& p, const Specs& s) {
  return {conv2d_geometry("conv2d_act", p.conv, s.in[0].shape, s.in[1].shape),
          {},
          p.activation == Activation::relu};
}

Support supports(const Conv2dActParams& p, const Specs& s) {
  if (p.activation == Activation::gelu || s.in[3].defined)
    return Support::no("an activation other than ReLU, or a residual");
  return supports_forward(problem(p, s), s);
}
std::vector<Candidate> candidates(const Conv2dActParams& p, const Specs& s,
                                  const CandidateRequest& request) {
  return forward_candidates(problem(p, s), s, request);
}
void run(const Conv2dActParams&, const KernelState& state, const Call& call) {
  implicit_gemm::run_forward(state, call);
}

// The library's plan has all of it.

ConvProblem library_problem(const Conv2dActParams& p, const Specs& s) {
  ConvProblem problem = conv_forward_problem(p.conv, s);
  problem.joined = true;
  problem.residual = s.in[3].defined;
  problem.activation = p.activation;
  return problem;
}

Support supports_library(const Conv2dActParams& p, const Specs& s) {
  if (s.out[0].dtype == DType::f32) return Support::no("computes f16 and bf16 only");
  return supports_cudnn(library_problem(p, s), s);
}
std::vector<Candidate> library_candidates(const Conv2dActParams& p, const Specs& s,
                                          const CandidateRequest& request) {
  return cudnn_candidates(library_problem(p, s), request);
}
void run_library(const Conv2dActParams&, const KernelState& state, const Call& call) {
  run_cudnn_forward(state, call);
}

}  // namespace

KernelList conv2d_act_cuda_kernels() {
  return {kernel_with_candidates<supports, candidates, run>("implicit_gemm"),
          kernel_with_candidates<supports_library, library_candidates, run_library>("cudnn"),
          conv2d_act_composed_kernel()};
}

}  // namespace mica
