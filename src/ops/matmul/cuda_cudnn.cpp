// Linear layers with a sum and an activation after them by cuDNN, which generates such kernels: the
// layer is a convolution of one pixel, with its rows as the image's.
#include "mica/ops/conv/cuda_cudnn.h"
#include "mica/op/settings.h"
#include "mica/ops/matmul/cuda_kernels.h"
#include "mica/ops/matmul/problem.h"

namespace mica {

const OpDef& linear_op();

namespace {

/// What is done to the result, of what cuBLASLt has no epilogue for (of the GELU with tanh for f16
/// and bf16 alone); none where it is otherwise.
std::optional<KnownAfter> end_of(const AnchoredParams& params, const Specs& s) {
  const auto known = known_after(params, linear_op());
  if (!known || known->saved >= 0 || params.call->keeps_result) return std::nullopt;
  if (known->added >= 0) {
    const TensorSpec& added = s.in[static_cast<size_t>(known->added)];
    if (added.shape != s.out[0].shape || added.dtype != s.out[0].dtype) return std::nullopt;
  } else if (known->activation == Activation::relu ||
             (known->activation == Activation::gelu_tanh && size_of(s.out[0].dtype) == 2)) {
    return std::nullopt;
  }
  return known;
}

ConvProblem problem_of(const AnchoredParams& params, const Specs& s) {
  const auto end = end_of(params, s);
  const int64_t k = s.in[1].shape[1];
  const int64_t n = s.in[1].shape[0];
  const int64_t rows = s.out[0].numel() / n;
  ConvProblem p;
  p.x = {1, k, rows, 1};
  p.weight = {n, k, 1, 1};
  p.y = {1, n, rows, 1};
  p.stride = {1, 1};
  p.padding = {0, 0};
  p.dilation = {1, 1};
  p.dtype = s.out[0].dtype;
  p.device = s.out[0].device;
  p.channels_last = true;
  p.bias = s.in[2].defined;
  p.joined = true;
  p.residual = end->added >= 0;
  p.activation = end->activation;
  return p;
}

Support supports(const AnchoredParams& params, const Specs& s) {
  constexpr int64_t kWhole = 8;  // elements of 16 bytes
  if (!end_of(params, s))
    return Support::no("it carries what cuBLASLt has no epilogue for after a linear layer");
  const DType dtype = s.out[0].dtype;
  const bool f32 = dtype == DType::f32;
  if (dtype == DType::f64 || (f32 && !allow_tf32()))
    return Support::no("computes f16 and bf16, and f32 as TF32");
  if (dtype != s.in[0].dtype) return Support::no("the result has another dtype");
  const Shape& weight = s.in[1].shape;
  if (s.out[0].numel() == 0 || weight[1] % kWhole != 0 || weight[0] % kWhole != 0)
    return Support::no("rows that are not whole vectors");
  for (const TensorSpec& spec : s.in)
    if (spec.defined && !spec.aligned)
      return Support::no("an input does not lie on a 16-byte boundary");
  // Measured on an H200, 8192 rows of 768 by 3072, in µs, of relu by cuBLASLt, of these by cuDNN
  // and by cuBLASLt and a pass: bf16 SiLU 98, 100, 126, GELU 98, 151, 126; f32 SiLU 170, 188, 227.
  constexpr int64_t kLarge = 1 << 20;
  const bool slow = end_of(params, s)->activation == Activation::gelu;
  const bool faster = !slow && (!f32 || s.out[0].numel() >= kLarge);
  return (faster ? Support::yes() : Support::possible()).with_contiguous(0b1111);
}

std::vector<Candidate> candidates(const AnchoredParams& params, const Specs& s,
                                  const CandidateRequest& request) {
  return cudnn_candidates(problem_of(params, s), request);
}

void run(const AnchoredParams&, const KernelState& state, const Call& call) {
  run_cudnn_forward(state, call);
}

}  // namespace

Kernel linear_carrying_cudnn_kernel() {
  return kernel_with_candidates<supports, candidates, run>("linear_cudnn");
}

}  // namespace mica
