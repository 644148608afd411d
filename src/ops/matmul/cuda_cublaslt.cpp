// matmul and linear, with an activation after it, by cuBLASLt: bias, ReLU and, where digits are
// few, the GELU with tanh in its epilogue, and a pass of ours for what the epilogue cannot do (f64
// has no epilogues).
#include <limits>
#include <optional>
#include <vector>

#include "mica/core/check.h"
#include "mica/op/settings.h"
#include "mica/ops/matmul/cuda_kernels.h"
#include "mica/ops/matmul/cuda_lt.h"
#include "mica/runtime/cuda/encoder.h"

namespace mica {

const OpDef& linear_op();

namespace {

/// A product and what is left to do to it.
struct ProductState : KernelState {
  std::shared_ptr<LtState> product;
  bool bias_in_product = false;
  bool bias_after = false;
  Activation after = Activation::none;
};

// A candidate's name: where bias and ReLU are computed, and the algorithm's name.
constexpr const char* kEpilogue = "epilogue ";
constexpr const char* kPlain = "plain ";

/// Candidates of one kind.
std::vector<Candidate> add_answers(const LtProduct& product, const ProductState& like,
                                   const char* kind, CandidateRequest request) {
  std::vector<Candidate> found;
  if (!request.only.empty()) {
    if (!request.only.starts_with(kind)) return found;
    request.only = request.only.substr(std::string_view(kind).size());
  }
  for (LtAnswer& answer : find_lt_answers(product, request)) {
    auto state = std::make_shared<ProductState>(like);
    state->workspace_bytes = answer.state->workspace_bytes;
    state->product = std::move(answer.state);
    const auto place = static_cast<double>(found.size());
    found.push_back({kind + answer.name, place, std::move(state)});
  }
  return found;
}

/// The epilogue with an activation; none where the library has none that is exact enough.
std::optional<cublasLtEpilogue_t> epilogue_of(Activation activation, bool biased, DType dtype) {
  if (activation == Activation::relu)
    return biased ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
  const bool few_digits = size_of(dtype) == 2 || (dtype == DType::f32 && allow_tf32());
  if (activation == Activation::gelu_tanh && few_digits)
    return biased ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
  return std::nullopt;
}

/// With bias and activation in the library's epilogue where it can, else by a pass after the
/// product.
std::vector<Candidate> find_candidates(Activation activation, const MatmulProblem& p,
                                       const Specs& specs, const CandidateRequest& request) {
  LtProduct product{p, specs.in[0], specs.in[1], specs.out[0]};
  const bool biased = specs.in.size() > 2 && specs.in[2].defined;
  const std::optional<cublasLtEpilogue_t> epilogue =
      epilogue_of(activation, biased, specs.out[0].dtype);
  std::vector<Candidate> found;
  if (biased || epilogue) {
    product.epilogue = epilogue.value_or(CUBLASLT_EPILOGUE_BIAS);
    if (biased) product.vector = specs.in[2];
    ProductState state;
    state.bias_in_product = biased;
    state.after = epilogue ? Activation::none : activation;
    found = add_answers(product, state, kEpilogue, request);
  }
  if (found.empty()) {
    product.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    product.vector = {};
    ProductState state;
    state.bias_after = biased;
    state.after = activation;
    found = add_answers(product, state, kPlain, request);
  }
  check<Unsupported>(!found.empty() || !request.only.empty(),
                     "matmul: cuBLASLt has no algorithm for this product");
  return found;
}

Activation activation_of(const NoParams&, const Specs&) { return Activation::none; }
Activation activation_of(const AnchoredParams& params, const Specs& specs) {
  return *ending_activation(params, specs);
}

Support refusal(const NoParams&, const Specs&) { return Support::yes(); }
Support refusal(const AnchoredParams& params, const Specs& specs) {
  return ending_activation(params, specs)
             ? Support::yes()
             : Support::no("it carries an activation after a linear layer");
}

template <auto problem_of, class P>
Support supports(const P& params, const Specs& specs) {
  if (Support s = refusal(params, specs); s.kind == Support::Kind::no) return s;
  const MatmulProblem p = problem_of(specs.in[0], specs.in[1]);
  if (specs.out[0].numel() == 0 || p.k == 0) return Support::no("there is nothing to multiply");
  if (p.batches() > std::numeric_limits<int32_t>::max())
    return Support::no("more than 2^31 matrices");
  Support support = Support::yes().with_contiguous(LtProduct::without_unit_stride(p));
  if (specs.in.size() > 2 && specs.in[2].defined) support.contiguous |= 0b100;
  return support;
}

template <auto problem_of, class P>
std::vector<Candidate> candidates(const P& params, const Specs& specs,
                                  const CandidateRequest& request) {
  return find_candidates(activation_of(params, specs), problem_of(specs.in[0], specs.in[1]), specs,
                         request);
}

template <class P>
void run(const P&, const KernelState& kernel_state, const Call& call) {
  const auto& state = static_cast<const ProductState&>(kernel_state);
  run_lt(*state.product, *call.encoder, call.in[0].data, call.in[1].data,
         state.bias_in_product ? call.in[2].data : nullptr, call.out[0].data, call.workspace);
  if (state.bias_after || state.after != Activation::none)
    finish_linear(*call.encoder, call.out[0], state.bias_after ? &call.in[2] : nullptr,
                  state.after);
}

template <auto problem_of, class P>
Kernel cublaslt_kernel(const char* name) {
  return kernel_with_candidates<supports<problem_of, P>, candidates<problem_of, P>, run<P>>(name);
}

KernelList list(KernelList small, const Kernel& few_rows, const Kernel& cublaslt,
                const Kernel& tiled) {
  small.push_back(few_rows);
  small.push_back(cublaslt);
  small.push_back(tiled);
  return small;
}

}  // namespace

std::optional<Activation> ending_activation(const AnchoredParams& params, const Specs& specs) {
  const auto known = known_after(params, linear_op());
  if (!known || known->saved >= 0 || known->added >= 0 || params.call->keeps_result ||
      specs.out[0].dtype != specs.in[0].dtype)
    return std::nullopt;
  return known->activation;
}

Kernel matmul_cublaslt_kernel() { return cublaslt_kernel<matmul_problem, NoParams>("cublaslt"); }
Kernel linear_cublaslt_kernel() { return cublaslt_kernel<linear_problem, NoParams>("cublaslt"); }
Kernel linear_carrying_cublaslt_kernel() {
  return cublaslt_kernel<linear_problem, AnchoredParams>("linear_cublaslt");
}

KernelList matmul_cuda_kernels() {
  return list(matmul_small_kernels(), matmul_few_rows_kernel(), matmul_cublaslt_kernel(),
              matmul_tiled_kernel());
}

KernelList linear_cuda_kernels() {
  return list(linear_small_kernels(), linear_few_rows_kernel(), linear_cublaslt_kernel(),
              linear_tiled_kernel());
}

KernelList matmul_carrying_cuda_kernels() {
  KernelList all = product_carrying_small_kernels();
  for (const Kernel& kernel : {product_carrying_few_rows_kernel(), linear_carrying_sum_kernel(),
                               linear_carrying_cudnn_kernel(), product_carrying_gelu_kernel(),
                               product_carrying_wgmma_kernel(), linear_carrying_cublaslt_kernel(),
                               linear_carrying_tiled_kernel()})
    all.push_back(kernel);
  return all;
}

}  // namespace mica
