// Convolutions of single pixels, on images whose channels lie together, are products of matrices:
// by cuBLASLt, with a sum, the bias and ReLU in its epilogue.
#include "mica/core/check.h"
#include "mica/op/settings.h"
#include "mica/ops/conv2d/conv2d.h"
#include "mica/ops/conv2d/cuda_carrying.h"
#include "mica/ops/conv2d/geometry.h"
#include "mica/ops/matmul/cuda_lt.h"
#include "mica/runtime/cuda/encoder.h"

namespace mica {
namespace {

struct PixelsState : KernelState {
  std::shared_ptr<LtState> product;
};

const Conv2dParams& conv_of(const Conv2dParams& params) { return params; }
const Conv2dParams& conv_of(const AnchoredParams& params) {
  return params.call->params.as<Conv2dParams>();
}
std::optional<KnownAfter> end_of(const Conv2dParams&, const Specs&) { return KnownAfter{}; }
std::optional<KnownAfter> end_of(const AnchoredParams& params, const Specs& specs) {
  return conv2d_end(params, specs);
}

template <class P>
Support supports(const P& params, const Specs& s) {
  const auto end = end_of(params, s);
  if (!end || end->saved >= 0 ||
      (end->activation != Activation::none && end->activation != Activation::relu))
    return Support::no("it carries a sum and ReLU after conv2d");
  const Conv2dParams& p = conv_of(params);
  const Shape& weight = s.in[1].shape;
  if (weight[2] != 1 || weight[3] != 1 || p.stride.h != 1 || p.stride.w != 1 || p.padding.h != 0 ||
      p.padding.w != 0 || p.groups != 1)
    return Support::no("it takes windows of one pixel, of stride 1");
  const DType dtype = s.out[0].dtype;
  if (dtype == DType::f64 || s.in[0].dtype != dtype || s.in[1].dtype != dtype)
    return Support::no("computes f16, bf16 and f32");
  if (!s.in[0].is_channels_last_dense() || !s.out[0].is_channels_last_dense())
    return Support::no("the images are not channels_last");
  if (s.in[0].numel() == 0 || s.out[0].numel() == 0) return Support::no("a tensor is empty");
  Support support = Support::possible().with_contiguous(s.in[2].defined ? 0b110 : 0b10);
  if (end->added >= 0) support.channels_last |= 0b1000;
  return support;
}

template <class P>
std::vector<Candidate> candidates(const P& params, const Specs& s,
                                  const CandidateRequest& request) {
  const auto end = end_of(params, s);
  const bool biased = s.in[2].defined;
  const bool relu = end->activation == Activation::relu;
  LtProduct product;
  MatmulProblem& p = product.problem;
  p.n = s.in[1].shape[0];
  p.k = s.in[1].shape[1];
  p.m = s.out[0].numel() / p.n;
  p.a_row = p.b_col = p.k;
  p.a_col = p.b_row = 1;
  product.a = s.in[0];
  product.b = s.in[1];
  product.out = s.out[0];
  if (biased) product.vector = s.in[2];
  if (end->added >= 0) product.added = s.in[static_cast<size_t>(end->added)];
  product.epilogue = relu ? (biased ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU)
                          : (biased ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT);
  std::vector<Candidate> found;
  for (LtAnswer& answer : find_lt_answers(product, request)) {
    auto state = std::make_shared<PixelsState>();
    state->workspace_bytes = answer.state->workspace_bytes;
    state->product = std::move(answer.state);
    found.push_back({answer.name, static_cast<double>(found.size()), std::move(state)});
  }
  check<Unsupported>(!found.empty() || !request.only.empty(),
                     "conv2d: cuBLASLt has no algorithm for this product");
  return found;
}

template <class P>
void run(const P&, const KernelState& kernel_state, const Call& call) {
  const auto& state = static_cast<const PixelsState&>(kernel_state);
  run_lt(*state.product, *call.encoder, call.in[0].data, call.in[1].data,
         call.in[2].defined() ? call.in[2].data : nullptr, call.out[0].data, call.workspace,
         nullptr, call.in.size() > 3 ? call.in[3].data : nullptr);
}

template <class P>
Kernel pixels_kernel(const char* name) {
  return kernel_with_candidates<supports<P>, candidates<P>, run<P>>(name);
}

}  // namespace

Kernel conv2d_pixels_kernel() { return pixels_kernel<Conv2dParams>("pixels"); }
Kernel conv2d_carrying_pixels_kernel() { return pixels_kernel<AnchoredParams>("conv2d_pixels"); }

}  // namespace mica
