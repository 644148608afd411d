// matmul, linear and linear_act by cuBLASLt: bias and ReLU in its epilogue, and a pass of ours for
// what the epilogue cannot do (its GELU is the form with tanh; f64 has no epilogues).
#include <limits>
#include <vector>

#include "mica/core/check.h"
#include "mica/ops/matmul/cuda_kernels.h"
#include "mica/ops/matmul/cuda_lt.h"
#include "mica/runtime/cuda/encoder.h"

namespace mica {
namespace {

/// A product and what is left to do to it.
struct ProductState : KernelState {
  std::shared_ptr<LtState> product;
  bool bias_in_product = false;
  bool bias_after = false;
  Activation after = Activation::none;
};

using FindState = std::shared_ptr<LtState>(const LtProduct&, std::string&);

/// Null, with `reason` set, where the library cannot compute the product.
std::shared_ptr<ProductState> make_state(FindState& find, Activation activation,
                                         const MatmulProblem& p, const Specs& specs,
                                         std::string& reason) {
  LtProduct product{p, specs.in[0], specs.in[1], specs.out[0]};
  const bool biased = specs.in.size() > 2 && specs.in[2].defined;
  const bool relu = activation == Activation::relu;
  auto state = std::make_shared<ProductState>();
  if (biased || relu) {
    product.epilogue = biased ? relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS
                              : CUBLASLT_EPILOGUE_RELU;
    if (biased) product.vector = specs.in[2];
    state->product = find(product, reason);
    state->bias_in_product = biased;
    state->after = relu ? Activation::none : activation;
  }
  if (!state->product) {
    product.epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    product.vector = {};
    state->product = find(product, reason);
    state->bias_in_product = false;
    state->bias_after = biased;
    state->after = activation;
  }
  if (!state->product) return nullptr;
  state->workspace_bytes = state->product->workspace_bytes;
  return state;
}

Activation activation_of(const NoParams&) { return Activation::none; }
Activation activation_of(const LinearParams& params) { return params.activation; }

template <auto problem_of, class P>
Support supports(const P& params, const Specs& specs) {
  std::vector<TensorSpec> in(specs.in.begin(), specs.in.end());
  const MatmulProblem p = problem_of(in[0], in[1]);
  if (specs.out[0].numel() == 0 || p.k == 0) return Support::no("there is nothing to multiply");
  if (p.batches() > std::numeric_limits<int32_t>::max())
    return Support::no("more than 2^31 matrices");
  uint32_t contiguous = LtProduct::without_unit_stride(p);
  if (in.size() > 2 && in[2].defined && !in[2].is_contiguous()) contiguous |= 4;
  for (size_t i = 0; i < in.size(); ++i)
    if (contiguous >> i & 1U)
      in[i] = TensorSpec::contiguous(in[i].shape, in[i].dtype, in[i].device);
  std::string reason;
  if (!make_state(find_lt_state, activation_of(params), problem_of(in[0], in[1]), {in, specs.out},
                  reason))
    return Support::no(reason);
  return Support::yes().with_contiguous(contiguous);
}

template <auto problem_of, class P>
std::shared_ptr<ProductState> prepare(const P& params, const Specs& specs) {
  std::string reason;
  auto state = make_state(prepare_lt_state, activation_of(params),
                          problem_of(specs.in[0], specs.in[1]), specs, reason);
  check<Unsupported>(state != nullptr, "matmul: cublaslt: {}", reason);
  return state;
}

template <class P>
void run(const P&, const ProductState& state, const Call& call) {
  run_lt(*state.product, *call.encoder, call.in[0].data, call.in[1].data,
         state.bias_in_product ? call.in[2].data : nullptr, call.out[0].data, call.workspace);
  if (state.bias_after || state.after != Activation::none)
    finish_linear(*call.encoder, call.out[0], state.bias_after ? &call.in[2] : nullptr,
                  state.after);
}

template <auto problem_of, class P>
Kernel cublaslt_kernel() {
  return kernel<supports<problem_of, P>, prepare<problem_of, P>, run<P>>("cublaslt");
}

KernelList list(KernelList small, const Kernel& cublaslt, const Kernel& tiled) {
  small.push_back(cublaslt);
  small.push_back(tiled);
  return small;
}

}  // namespace

Kernel matmul_cublaslt_kernel() { return cublaslt_kernel<matmul_problem, NoParams>(); }
Kernel linear_cublaslt_kernel() { return cublaslt_kernel<linear_problem, NoParams>(); }
Kernel linear_act_cublaslt_kernel() { return cublaslt_kernel<linear_problem, LinearParams>(); }

KernelList matmul_cuda_kernels() {
  return list(matmul_small_kernels(), matmul_cublaslt_kernel(), matmul_tiled_kernel());
}

KernelList linear_cuda_kernels() {
  return list(linear_small_kernels(), linear_cublaslt_kernel(), linear_tiled_kernel());
}

KernelList linear_act_cuda_kernels() {
  return list(linear_act_small_kernels(), linear_act_cublaslt_kernel(), linear_act_tiled_kernel());
}

}  // namespace mica
