// Linear layers whose result is added to something of its shape, as residual networks have them, by
// cuBLASLt, which adds what lies in memory to a product.
#include "mica/core/check.h"
#include "mica/ops/matmul/cuda_kernels.h"
#include "mica/ops/matmul/cuda_lt.h"
#include "mica/runtime/cuda/encoder.h"

namespace mica {

const OpDef& linear_op();

namespace {

struct SumState : KernelState {
  std::shared_ptr<LtState> product;
  bool biased = false;
  size_t added = 0;  ///< the input that is added
};

/// The input that is added, where that is all that is done to the result; -1 where it is not.
int added_to(const AnchoredParams& params) {
  const auto known = known_after(params, linear_op());
  const bool alone = known && known->activation == Activation::none && known->saved < 0;
  return alone && !params.call->keeps_result ? known->added : -1;
}

Support supports(const AnchoredParams& params, const Specs& s) {
  constexpr int64_t kVector = 8;  // elements from row to row of what is added: a multiple
  const int added = added_to(params);
  if (added < 0) return Support::no("it carries a sum alone after a linear layer");
  const DType dtype = s.in[0].dtype;
  const TensorSpec& other = s.in[static_cast<size_t>(added)];
  if (dtype == DType::f64) return Support::no("computes f32, f16 and bf16");
  if (other.shape != s.out[0].shape || other.dtype != dtype || s.out[0].dtype != dtype)
    return Support::no("what is added is not like the result");
  const MatmulProblem p = linear_problem(s.in[0], s.in[1]);
  if (!p.batch.empty()) return Support::no("more than one matrix");
  if (s.out[0].numel() == 0 || p.k == 0) return Support::no("there is nothing to multiply");
  if (p.n % kVector != 0 || !other.aligned) return Support::no("rows that are not whole vectors");
  IndexSet dense = LtProduct::without_unit_stride(p);
  dense.insert(added);
  if (s.in[2].defined) dense.insert(2);
  return Support::yes().with_contiguous(dense);
}

std::vector<Candidate> candidates(const AnchoredParams& params, const Specs& s,
                                  const CandidateRequest& request) {
  LtProduct product{linear_problem(s.in[0], s.in[1]), s.in[0], s.in[1], s.out[0]};
  const bool biased = s.in[2].defined;
  if (biased) {
    product.epilogue = CUBLASLT_EPILOGUE_BIAS;
    product.vector = s.in[2];
  }
  std::vector<Candidate> found;
  for (LtAnswer& answer : find_lt_answers(product, request)) {
    auto state = std::make_shared<SumState>();
    state->workspace_bytes = answer.state->workspace_bytes;
    state->product = std::move(answer.state);
    state->biased = biased;
    state->added = static_cast<size_t>(added_to(params));
    const auto place = static_cast<double>(found.size());
    found.push_back({answer.name, place, std::move(state)});
  }
  check<Unsupported>(!found.empty() || !request.only.empty(),
                     "anchored: cuBLASLt has no algorithm for this product");
  return found;
}

void run(const AnchoredParams&, const KernelState& kernel_state, const Call& call) {
  const auto& state = static_cast<const SumState&>(kernel_state);
  run_lt(*state.product, *call.encoder, call.in[0].data, call.in[1].data,
         state.biased ? call.in[2].data : nullptr, call.out[0].data, call.workspace, nullptr,
         call.in[state.added].data);
}

}  // namespace

Kernel linear_carrying_sum_kernel() {
  return kernel_with_candidates<supports, candidates, run>("sum_cublaslt");
}

}  // namespace mica
