// The CUDA kernels of convolutions, best first: ours where they claim a problem, then the library,
// then the direct ones, which take everything. Where timing is on the fastest of them is taken.
#include "mica/ops/conv/cuda_cudnn.h"
#include "mica/ops/conv2d/cuda_carrying.h"
#include "mica/ops/conv2d/cuda_kernels.h"
#include "mica/ops/conv2d/implicit_gemm.h"

namespace mica {
namespace {

using namespace implicit_gemm;

ForwardProblem forward_problem(const Conv2dParams& p, const Specs& s) {
  return {conv2d_geometry("conv2d", p, s.in[0].shape, s.in[1].shape), {}};
}
DgradProblem dgrad_problem(const Conv2dGradParams& p, const Specs& s) {
  return {conv2d_geometry("conv2d_dgrad", p.conv, p.shape, s.in[1].shape), {}};
}
WgradProblem wgrad_problem(const Conv2dGradParams& p, const Specs& s) {
  return {conv2d_geometry("conv2d_wgrad", p.conv, s.in[1].shape, p.shape), {}, false};
}

template <auto problem, auto supports_fn, class P>
Support supports(const P& params, const Specs& specs) {
  if (!is_row_major(specs)) return Support::no("an input is not row-major");
  return supports_fn(problem(params, specs), specs);
}

template <auto problem, auto candidates_fn, class P>
std::vector<Candidate> candidates(const P& params, const Specs& specs,
                                  const CandidateRequest& request) {
  return candidates_fn(problem(params, specs), specs, request);
}

template <auto run_fn, class P>
void run(const P&, const KernelState& state, const Call& call) {
  run_fn(state, call);
}

template <class P, auto problem, auto supports_fn, auto candidates_fn, auto run_fn>
Kernel implicit_gemm_kernel() {
  return kernel_with_candidates<supports<problem, supports_fn, P>,
                                candidates<problem, candidates_fn, P>, run<run_fn, P>>(
      "implicit_gemm");
}

}  // namespace

KernelList conv2d_cuda_kernels() {
  return {conv2d_few_channels_mma_kernel(),
          conv2d_few_channels_kernel(),
          implicit_gemm_kernel<Conv2dParams, forward_problem, supports_forward, forward_candidates,
                               run_forward>(),
          conv2d_space_to_depth_kernel(),
          cudnn_forward_kernel<Conv2dParams>(),
          conv2d_cublaslt_kernel(),
          conv2d_direct_kernel()};
}

KernelList conv2d_dgrad_cuda_kernels() {
  return {implicit_gemm_kernel<Conv2dGradParams, dgrad_problem, supports_dgrad, dgrad_candidates,
                               run_dgrad>(),
          cudnn_dgrad_kernel<Conv2dGradParams>(), conv2d_dgrad_direct_kernel()};
}

KernelList conv2d_wgrad_cuda_kernels() {
  return {conv2d_wgrad_few_channels_mma_kernel(),
          conv2d_wgrad_few_channels_kernel(),
          implicit_gemm_kernel<Conv2dGradParams, wgrad_problem, supports_wgrad, wgrad_candidates,
                               run_wgrad>(),
          conv2d_wgrad_space_to_depth_kernel(),
          cudnn_wgrad_kernel<Conv2dGradParams>(),
          conv2d_wgrad_direct_kernel()};
}

}  // namespace mica
