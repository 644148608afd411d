// Which calls attention by tiles takes, and what goes before its gradient.
#include "mica/ops/attention/cuda_tiles.h"

#include "mica/op/settings.h"
#include "mica/ops/attention/cuda_kernels.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/types.cuh"

namespace mica {
namespace {

using namespace mica::cuda;
using namespace mica::attention;

/// The sum of dy · y of each query, less the cotangent of its sum of exponentials: a warp for each.
template <class T>
__global__ void __launch_bounds__(256)
    sum_products(const __grid_constant__ AttentionProblem p,
                 const __grid_constant__ AttentionRows dy_rows, const T* dy, const T* y,
                 const float* dlse, float* deltas) {
  const int64_t n = int64_t{blockIdx.x} * 8 + threadIdx.x / 32;
  if (n >= p.batch * p.heads * p.queries) return;
  const int64_t i = n % p.queries;
  const int64_t h = n / p.queries % p.heads;
  const int64_t b = n / p.queries / p.heads;
  const T* d = dy + dy_rows.at(b, h, i);
  const T* own = y + p.y.at(b, h, i);
  float sum = 0;
  for (int e = static_cast<int>(threadIdx.x % 32); e < p.value_width; e += 32)
    sum += to_compute(d[e]) * to_compute(own[e]);
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) deltas[n] = sum - (dlse ? dlse[n] : 0);
}

Products products_of(DType dtype) {
  if (dtype == DType::f16) return Products::half;
  if (dtype == DType::bf16) return Products::bfloat;
  return allow_tf32() ? Products::tf32 : Products::exact;
}

/// Why a call is not for tiles; empty where it is.
std::string why_not(const AttentionProblem& p, DType dtype) {
  constexpr int64_t kWidest = 128, kMostBlocks = 65535;
  if (dtype == DType::f64) return "computes f32, f16 and bf16";
  const auto vector = static_cast<int64_t>(16 / size_of(dtype));
  if (p.batch * p.heads * p.queries * p.keys == 0) return "nothing to compute";
  if (p.batch > kMostBlocks || p.heads > kMostBlocks) return "too many sequences or heads";
  if (p.width > kWidest || p.value_width > kWidest || p.width == 0 || p.value_width == 0)
    return "heads wider than 128";
  if (p.width % vector != 0 || p.value_width % vector != 0)
    return "heads that are not whole vectors";
  return {};
}

bool has_whole_rows(const AttentionRows& rows, int64_t vector) {
  return rows.col == 1 && rows.offset % vector == 0 && rows.batch % vector == 0 &&
         rows.head % vector == 0 && rows.row % vector == 0;
}

/// Accepts, with copies of those operands whose rows do not lie on 16-byte boundaries.
Support support_for(const Specs& s, std::span<const std::pair<size_t, AttentionRows>> operands) {
  const auto vector = static_cast<int64_t>(16 / size_of(s.in[0].dtype));
  IndexSet copied;
  for (const auto& [input, rows] : operands) {
    if (!s.in[input].aligned) return Support::no("an operand does not lie on a 16-byte boundary");
    if (!has_whole_rows(rows, vector)) copied.insert(static_cast<int>(input));
  }
  return Support::yes().with_contiguous(copied);
}

Support supports(const AttentionParams& params, const Specs& s) {
  const AttentionProblem p = attention_problem(params, s);
  const std::string reason = why_not(p, s.in[0].dtype);
  if (!reason.empty()) return Support::no(reason);
  const std::pair<size_t, AttentionRows> operands[] = {{0, p.q}, {1, p.k}, {2, p.v}};
  return support_for(s, std::span(operands).first(p.packed ? 1 : 3));
}

Support supports_grad(const AttentionParams& params, const Specs& s) {
  const AttentionProblem p = attention_grad_problem(params, s);
  const std::string reason = why_not(p, s.in[0].dtype);
  if (!reason.empty()) return Support::no(reason);
  const std::pair<size_t, AttentionRows> operands[] = {
      {0, attention_rows(s.in[0])}, {1, p.q}, {kAttentionGradY, p.y}, {2, p.k}, {3, p.v}};
  Support support = support_for(s, std::span(operands).first(p.packed ? 3 : 5));
  support.contiguous |= 1U << kAttentionGradLse | 1U << kAttentionGradDlse;
  return support;
}

struct State : KernelState {
  AttentionProblem problem;
  Products products = Products::half;
};

std::shared_ptr<State> prepare(const AttentionParams& params, const Specs& s) {
  auto state = std::make_shared<State>();
  state->problem = attention_problem(params, s);
  state->products = products_of(s.in[0].dtype);
  return state;
}

void run(const AttentionParams&, const State& state, const Call& call) {
  const bool half = size_of(call.in[0].dtype()) == 2;
  (half ? attend_half : attend_float)(state.problem, state.products, call);
}

struct GradState : KernelState {
  TileGrad grad;
  Products products = Products::half;
};

std::shared_ptr<GradState> prepare_grad(const AttentionParams& params, const Specs& s) {
  auto state = std::make_shared<GradState>();
  state->grad = {attention_grad_problem(params, s), attention_grad_outputs(params, s),
                 attention_rows(s.in[0])};
  state->products = products_of(s.in[0].dtype);
  const AttentionProblem& p = state->grad.problem;
  state->workspace_bytes = static_cast<size_t>(p.batch * p.heads * p.queries) * sizeof(float);
  return state;
}

void run_grad(const AttentionParams&, const GradState& state, const Call& call) {
  const AttentionProblem& p = state.grad.problem;
  auto* deltas = static_cast<float*>(call.workspace);
  const DType dtype = call.in[0].dtype();
  const auto sum = [&]<class T>() {
    call.encoder->launch(sum_products<T>, grid_over(p.batch * p.heads * p.queries, 8), 256, 0, p,
                         state.grad.dy, call.in[0].as<const T>(),
                         call.in[kAttentionGradY].as<const T>(),
                         call.in[kAttentionGradDlse].as<const float>(), deltas);
  };
  if (dtype == DType::f32)
    sum.operator()<float>();
  else if (dtype == DType::f16)
    sum.operator()<__half>();
  else
    sum.operator()<__nv_bfloat16>();
  const bool half = size_of(dtype) == 2;
  (half ? differentiate_half : differentiate_float)(state.grad, state.products, deltas, call);
}

}  // namespace

Kernel attention_tiles_kernel() { return kernel<supports, prepare, run>("tiles"); }
Kernel attention_grad_tiles_kernel() {
  return kernel<supports_grad, prepare_grad, run_grad>("tiles");
}

}  // namespace mica
