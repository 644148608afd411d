// Convolutions of single pixels, on images whose channels lie together, are products of matrices:
// by cuBLASLt, with a sum, the bias and ReLU in its epilogue. So are others of few images, whose
// windows are written to memory first: the library's convolutions leave most of the GPU idle there,
// where its products split their sums.
#include "mica/core/check.h"
#include "mica/op/settings.h"
#include "mica/ops/conv2d/conv2d.h"
#include "mica/ops/conv2d/cuda_carrying.h"
#include "mica/ops/conv2d/cuda_unfold.h"
#include "mica/ops/conv2d/geometry.h"
#include "mica/ops/matmul/cuda_lt.h"
#include "mica/runtime/cuda/encoder.h"

namespace mica {
namespace {

constexpr int64_t kMostUnfolded = int64_t{8} << 20;  ///< bytes
constexpr size_t kAlignment = 256;

struct ProductState : KernelState {
  std::shared_ptr<LtState> product;
  Conv2dGeometry conv;
  size_t unfolded =
      0;  ///< bytes at the start of the workspace; 0 where pixels are rows as they lie
};

size_t unfolded_size(const Conv2dGeometry& g, DType dtype) {
  if (g.pointwise()) return 0;
  const auto bytes = static_cast<size_t>(unfolded_bytes(g, size_of(dtype)));
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

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
  const Conv2dGeometry g = conv2d_geometry("conv2d", conv_of(params), s.in[0].shape, s.in[1].shape);
  if (g.groups != 1) return Support::no("it takes one group");
  const DType dtype = s.out[0].dtype;
  if (dtype == DType::f64 || s.in[0].dtype != dtype || s.in[1].dtype != dtype)
    return Support::no("computes f16, bf16 and f32");
  if (!s.in[0].is_channels_last_dense() || !s.out[0].is_channels_last_dense())
    return Support::no("the images are not channels_last");
  if (s.in[0].numel() == 0 || s.out[0].numel() == 0) return Support::no("a tensor is empty");
  const auto bytes = static_cast<int64_t>(size_of(dtype));
  if (!g.pointwise() && (g.c * bytes % 16 != 0 || !s.in[0].aligned ||
                         unfolded_bytes(g, size_of(dtype)) > kMostUnfolded))
    return Support::no("its windows take too much memory, or are not whole vectors");
  Support support = Support::possible().with_channels_last(end->added >= 0 ? 0b1010 : 0b10);
  if (s.in[2].defined) support.contiguous |= 0b100;
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
  const Conv2dGeometry g = conv2d_geometry("conv2d", conv_of(params), s.in[0].shape, s.in[1].shape);
  p.n = g.o;
  p.k = g.window();
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
    auto state = std::make_shared<ProductState>();
    state->conv = g;
    state->unfolded = unfolded_size(g, s.out[0].dtype);
    state->workspace_bytes = state->unfolded + answer.state->workspace_bytes;
    state->product = std::move(answer.state);
    found.push_back({answer.name, static_cast<double>(found.size()), std::move(state)});
  }
  check<Unsupported>(!found.empty() || !request.only.empty(),
                     "conv2d: cuBLASLt has no algorithm for this product");
  return found;
}

template <class P>
void run(const P&, const KernelState& kernel_state, const Call& call) {
  const auto& state = static_cast<const ProductState&>(kernel_state);
  auto* const workspace = static_cast<std::byte*>(call.workspace);
  if (state.unfolded > 0)
    unfold_windows(*call.encoder, state.conv, size_of(call.in[0].dtype()), call.in[0].data,
                   workspace);
  run_lt(*state.product, *call.encoder, state.unfolded > 0 ? workspace : call.in[0].data,
         call.in[1].data, call.in[2].defined() ? call.in[2].data : nullptr, call.out[0].data,
         workspace + state.unfolded, nullptr, call.in.size() > 3 ? call.in[3].data : nullptr);
}

template <class P>
Kernel product_kernel(const char* name) {
  return kernel_with_candidates<supports<P>, candidates<P>, run<P>>(name);
}

}  // namespace

Kernel conv2d_cublaslt_kernel() { return product_kernel<Conv2dParams>("cublaslt"); }
Kernel conv2d_carrying_cublaslt_kernel() {
  return product_kernel<AnchoredParams>("conv2d_cublaslt");
}

}  // namespace mica
