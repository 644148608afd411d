// A convolution, or the gradient of its input, with a program after it.
#include "mica/ops/conv2d/cuda_carrying.h"
#include "mica/op/settings.h"
#include "mica/ops/anchored/cuda_carried.h"
#include "mica/ops/conv/cuda_cudnn.h"
#include "mica/ops/conv2d/conv2d.h"
#include "mica/ops/conv2d/implicit_gemm.h"

namespace mica {

const OpDef& conv2d_op();
const OpDef& conv2d_dgrad_op();

std::optional<KnownAfter> conv2d_end(const AnchoredParams& params, const Specs& s) {
  const auto known = known_after(params, conv2d_op());
  if (!known || known->saved >= 0 || params.call->keeps_result || s.out[0].dtype != s.in[0].dtype)
    return std::nullopt;
  if (known->added >= 0) {
    const TensorSpec& added = s.in[static_cast<size_t>(known->added)];
    if (added.shape != s.out[0].shape || added.dtype != s.out[0].dtype) return std::nullopt;
  }
  return known;
}

namespace {

const Conv2dParams& conv_of(const AnchoredParams& params) {
  return params.call->params.as<Conv2dParams>();
}

Support no() { return Support::no("it carries a sum and an activation after conv2d"); }

/// ReLU alone is compiled in; what follows otherwise is generated.
implicit_gemm::ForwardProblem problem(const AnchoredParams& p, const Specs& s) {
  const auto end = conv2d_end(p, s);
  const bool relu = end && end->added < 0 && end->activation == Activation::relu;
  return {conv2d_geometry("conv2d", conv_of(p), s.in[0].shape, s.in[1].shape),
          {},
          relu,
          relu ? nullptr : &p};
}

Support supports(const AnchoredParams& p, const Specs& s) {
  const std::string reason = why_not_carried(p, conv2d_op(), s);
  return reason.empty() ? supports_forward(problem(p, s), s) : Support::no(reason);
}
std::vector<Candidate> candidates(const AnchoredParams& p, const Specs& s,
                                  const CandidateRequest& request) {
  return forward_candidates(problem(p, s), s, request);
}
void run(const AnchoredParams& params, const KernelState& state, const Call& call) {
  implicit_gemm::run_forward_carrying(params, state, call);
}

// The library's plan has all of it.

ConvProblem library_problem(const AnchoredParams& p, const Specs& s) {
  const auto end = conv2d_end(p, s);
  ConvProblem problem = conv_forward_problem(conv_of(p), s);
  problem.joined = true;
  problem.residual = end->added >= 0;
  problem.activation = end->activation;
  return problem;
}

Support supports_library(const AnchoredParams& p, const Specs& s) {
  if (!conv2d_end(p, s)) return no();
  // Of f32 there are few such plans, and only timing finds them worth it.
  const bool f32 = s.out[0].dtype == DType::f32;
  if (f32 && !allow_tf32()) return Support::no("computes f16 and bf16, and f32 as TF32");
  Support support = supports_cudnn(library_problem(p, s), s);
  if (f32 && support.kind == Support::Kind::preferred) support.kind = Support::Kind::possible;
  return support;
}
std::vector<Candidate> library_candidates(const AnchoredParams& p, const Specs& s,
                                          const CandidateRequest& request) {
  return cudnn_candidates(library_problem(p, s), request);
}
void run_library(const AnchoredParams&, const KernelState& state, const Call& call) {
  run_cudnn_forward(state, call);
}

// The gradient of the input; that of the ReLU that made the input is compiled in.

bool masks(const AnchoredParams& p, const Specs& s) {
  const auto known = known_after(p, conv2d_dgrad_op());
  return known && known->activation == Activation::relu && known->saved >= 0 &&
         !p.call->keeps_result && s.in[2].shape == s.out[0].shape &&
         s.in[2].dtype == s.out[0].dtype;
}

implicit_gemm::DgradProblem dgrad_problem(const AnchoredParams& params, const Specs& s) {
  const auto& p = params.call->params.as<Conv2dGradParams>();
  return {conv2d_geometry("conv2d_dgrad", p.conv, p.shape, s.in[1].shape),
          {},
          masks(params, s) ? nullptr : &params};
}

Support supports_dgrad(const AnchoredParams& p, const Specs& s) {
  const std::string reason = why_not_carried(p, conv2d_dgrad_op(), s);
  return reason.empty() ? implicit_gemm::supports_dgrad(dgrad_problem(p, s), s)
                        : Support::no(reason);
}
std::vector<Candidate> dgrad_candidates(const AnchoredParams& p, const Specs& s,
                                        const CandidateRequest& request) {
  return implicit_gemm::dgrad_candidates(dgrad_problem(p, s), s, request);
}
void run_dgrad(const AnchoredParams& params, const KernelState& state, const Call& call) {
  implicit_gemm::run_dgrad_carrying(params, state, call);
}

}  // namespace

KernelList conv2d_carrying_cuda_kernels() {
  return {kernel_with_candidates<supports, candidates, run>("conv2d_implicit_gemm"),
          kernel_with_candidates<supports_library, library_candidates, run_library>("conv2d_cudnn"),
          conv2d_carrying_space_to_depth_kernel(), conv2d_carrying_cublaslt_kernel(),
          kernel_with_candidates<supports_dgrad, dgrad_candidates, run_dgrad>(
              "conv2d_dgrad_implicit_gemm")};
}

}  // namespace mica
