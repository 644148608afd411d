// Products with the GELU with tanh as training needs it, in cuBLASLt's epilogue: a layer that also
// gives what the GELU was taken of, and a product followed by the GELU's gradient.
#include <optional>
#include <vector>

#include "mica/core/check.h"
#include "mica/ops/matmul/cuda_kernels.h"
#include "mica/ops/matmul/cuda_lt.h"
#include "mica/runtime/cuda/encoder.h"

namespace mica {

const OpDef& matmul_op();
const OpDef& linear_op();

namespace {

struct GeluState : KernelState {
  std::shared_ptr<LtState> product;
  bool biased = false;
  int saved = -1;  ///< the input that the gradient reads; -1: the GELU itself
};

/// What is carried: the input that the GELU's gradient reads, or -1 for a layer that keeps its
/// result; none for other programs.
std::optional<int> carried(const AnchoredParams& params) {
  const bool layer = params.call->op == &linear_op();
  const auto known = known_after(params, layer ? linear_op() : matmul_op());
  if (!known || known->activation != Activation::gelu_tanh || known->added >= 0)
    return std::nullopt;
  if (known->saved >= 0)
    return params.call->keeps_result ? std::nullopt : std::optional(known->saved);
  return layer && params.call->keeps_result ? std::optional(-1) : std::nullopt;
}

MatmulProblem problem_of(const AnchoredParams& params, const Specs& s) {
  return params.call->op == &linear_op() ? linear_problem(s.in[0], s.in[1])
                                         : matmul_problem(s.in[0], s.in[1]);
}

Support supports(const AnchoredParams& params, const Specs& s) {
  constexpr int64_t kVector = 8;  // elements from row to row of the other matrix: a multiple
  const std::optional<int> saved = carried(params);
  if (!saved)
    return Support::no("it carries the GELU with tanh that keeps its operand, or its gradient");
  const DType dtype = s.in[0].dtype;
  if (size_of(dtype) != 2) return Support::no("computes f16 and bf16");
  if (s.out[0].dtype != dtype) return Support::no("the result has another dtype");
  const MatmulProblem p = problem_of(params, s);
  if (!p.batch.empty()) return Support::no("more than one matrix");
  if (s.out[0].numel() == 0 || p.k == 0) return Support::no("there is nothing to multiply");
  if (p.n % kVector != 0) return Support::no("rows that are not whole vectors");
  IndexSet dense = LtProduct::without_unit_stride(p);
  if (*saved >= 0) {
    const TensorSpec& spec = s.in[static_cast<size_t>(*saved)];
    if (spec.shape != s.out[0].shape || spec.dtype != dtype)
      return Support::no("what the gradient reads is not of the result's kind");
    if (!spec.aligned) return Support::no("an operand does not lie on a 16-byte boundary");
    dense.insert(*saved);
  }
  if (params.call->op == &linear_op() && s.in[2].defined) dense.insert(2);
  return Support::yes().with_contiguous(dense);
}

std::vector<Candidate> candidates(const AnchoredParams& params, const Specs& s,
                                  const CandidateRequest& request) {
  const int saved = *carried(params);
  LtProduct product{problem_of(params, s), s.in[0], s.in[1], s.out[0]};
  const bool biased = params.call->op == &linear_op() && s.in[2].defined;
  if (biased && saved >= 0) fail<Unsupported>("anchored: cuBLASLt adds no bias before a gradient");
  product.epilogue = saved >= 0 ? CUBLASLT_EPILOGUE_DGELU
                     : biased   ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS
                                : CUBLASLT_EPILOGUE_GELU_AUX;
  if (biased) product.vector = s.in[2];
  product.beside = saved >= 0 ? s.in[static_cast<size_t>(saved)] : s.out[1];
  std::vector<Candidate> found;
  for (LtAnswer& answer : find_lt_answers(product, request)) {
    auto state = std::make_shared<GeluState>();
    state->workspace_bytes = answer.state->workspace_bytes;
    state->product = std::move(answer.state);
    state->biased = biased;
    state->saved = saved;
    const auto place = static_cast<double>(found.size());
    found.push_back({answer.name, place, std::move(state)});
  }
  check<Unsupported>(!found.empty() || !request.only.empty(),
                     "anchored: cuBLASLt has no algorithm for this product");
  return found;
}

void run(const AnchoredParams&, const KernelState& kernel_state, const Call& call) {
  const auto& state = static_cast<const GeluState&>(kernel_state);
  void* const beside =
      state.saved >= 0 ? call.in[static_cast<size_t>(state.saved)].data : call.out[1].data;
  run_lt(*state.product, *call.encoder, call.in[0].data, call.in[1].data,
         state.biased ? call.in[2].data : nullptr, call.out[0].data, call.workspace, beside);
}

}  // namespace

Kernel product_carrying_gelu_kernel() {
  return kernel_with_candidates<supports, candidates, run>("gelu_cublaslt");
}

}  // namespace mica
