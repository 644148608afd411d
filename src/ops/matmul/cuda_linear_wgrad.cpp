// linear_wgrad on CUDA: the bias's gradient is summed in the product's epilogue where cuBLASLt can,
// else by the op `sum`.
#include "mica/core/check.h"
#include "mica/op/select.h"
#include "mica/ops/matmul/cuda_kernels.h"
#include "mica/ops/matmul/cuda_lt.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

constexpr size_t kWorkspaceAlignment = 256;

struct WgradState : KernelState {
  std::shared_ptr<LtState> product;     ///< null in the tiled kernel
  bool sums_apart = false;              ///< the product does not sum for the bias
  std::shared_ptr<const Prepared> sum;  ///< null where that is for our kernel of row sums
  size_t sum_workspace = 0;             ///< where the sum's part of the workspace starts
};

const ReduceParams& over_rows() {
  static const ReduceParams params{.axes = {0}};
  return params;
}

/// Lets our kernel of row sums, or else the op `sum`, compute the second result.
void add_sum(WgradState& state, const Specs& specs) {
  state.sums_apart = true;
  state.sum_workspace =
      (state.workspace_bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
  const Device device = specs.out[0].device;
  if (row_sums_take(specs.in[0], specs.out[1])) {
    const int multiprocessors = runtime(DeviceKind::cuda).encoder(device.index)->multiprocessors();
    state.workspace_bytes = state.sum_workspace + row_sums_workspace(specs.in[0], multiprocessors);
    return;
  }
  state.sum = select(find_op("sum"), ParamsRef::of(over_rows()),
                     {specs.in.first(1), specs.out.subspan(1, 1)}, device);
  check(!state.sum->needs_copies(), "linear_wgrad: the sum of a row-major matrix needs a copy");
  state.workspace_bytes = state.sum_workspace + state.sum->state->workspace_bytes;
}

void run_sum(const WgradState& state, const Call& call) {
  if (!state.sums_apart) return;
  Call own{call.in.first(1), call.out.subspan(1, 1),
           static_cast<std::byte*>(call.workspace) + state.sum_workspace, call.encoder};
  if (state.sum)
    state.sum->run(&over_rows(), own);
  else
    run_row_sums(own, own.in[0], own.out[0]);
}

/// The product of dy (rows, out), row-major, and x (rows, in).
LtProduct product_of(const Specs& specs, const TensorSpec& x) {
  const TensorSpec& in = specs.in[0];
  const TensorSpec dy =
      in.is_contiguous() ? in : TensorSpec::contiguous(in.shape, in.dtype, in.device);
  return {linear_wgrad_problem(dy, x), dy, x, specs.out[0]};
}

LtProduct with_sum(LtProduct product, const Specs& specs) {
  // In the library's column-major view dy is the right operand.
  product.epilogue = CUBLASLT_EPILOGUE_BGRADB;
  product.vector = specs.out[1];
  return product;
}

Support supports(const NoParams&, const Specs& specs) {
  if (specs.out[0].numel() == 0 || specs.in[0].shape[0] == 0)
    return Support::no("there is nothing to multiply");
  const bool copies =
      (LtProduct::without_unit_stride(product_of(specs, specs.in[1]).problem) & 2U) != 0;
  return Support::yes().with_contiguous(copies ? 0b11 : 0b01);
}

// A candidate's name: who sums for the bias, and the algorithm's name.
constexpr const char* kSummed = "epilogue ";
constexpr const char* kPlain = "plain ";

std::vector<Candidate> candidates(const NoParams&, const Specs& specs,
                                  const CandidateRequest& request) {
  const LtProduct product = product_of(specs, specs.in[1]);
  std::vector<Candidate> found;
  for (const bool sums : {true, false}) {
    const std::string kind = sums ? kSummed : kPlain;
    CandidateRequest of_kind = request;
    // A pass of its own over dy is sometimes faster than an epilogue: both are there to be timed.
    const bool enough = !found.empty() && request.most == 1;
    if (enough || (!request.only.empty() && !request.only.starts_with(kind))) continue;
    if (!request.only.empty()) of_kind.only = request.only.substr(kind.size());
    for (LtAnswer& answer : find_lt_answers(sums ? with_sum(product, specs) : product, of_kind)) {
      auto state = std::make_shared<WgradState>();
      state->workspace_bytes = answer.state->workspace_bytes;
      state->product = std::move(answer.state);
      if (!sums) add_sum(*state, specs);
      const auto place = static_cast<double>(found.size());
      found.push_back({kind + answer.name, place, std::move(state)});
    }
  }
  check<Unsupported>(!found.empty() || !request.only.empty(),
                     "linear_wgrad: cuBLASLt has no algorithm for this product");
  return found;
}

void run(const NoParams&, const KernelState& kernel_state, const Call& call) {
  const auto& state = static_cast<const WgradState&>(kernel_state);
  run_lt(*state.product, *call.encoder, call.in[0].data, call.in[1].data,
         state.sums_apart ? nullptr : call.out[1].data, call.out[0].data, call.workspace);
  run_sum(state, call);
}

Support supports_tiled(const NoParams&, const Specs&) { return Support::yes().with_contiguous(1); }

std::shared_ptr<WgradState> prepare_tiled(const NoParams&, const Specs& specs) {
  auto state = std::make_shared<WgradState>();
  add_sum(*state, specs);
  return state;
}

void run_tiled(const NoParams&, const WgradState& state, const Call& call) {
  run_wgrad_product_tiled(call);
  run_sum(state, call);
}

}  // namespace

Kernel linear_wgrad_cublaslt_kernel() {
  return kernel_with_candidates<supports, candidates, run>("cublaslt");
}

KernelList linear_wgrad_cuda_kernels() {
  KernelList list = linear_wgrad_small_kernels();
  list.push_back(linear_wgrad_cublaslt_kernel());
  list.push_back(kernel<supports_tiled, prepare_tiled, run_tiled>("tiled"));
  return list;
}

}  // namespace mica
