// Which calls attention by tiles takes, and what goes before its gradient.
#include "mica/ops/attention/cuda_tiles.h"

#include "mica/op/settings.h"
#include "mica/ops/attention/cuda_kernels.h"

#include <string>

namespace mica {
namespace {

using namespace mica::attention;

Products products_of(DType dtype) {
  if (dtype == DType::f16) return Products::half;
  if (dtype == DType::bf16) return Products::bfloat;
  return allow_tf32() ? Products::tf32 : Products::exact;
}

bool has_whole_rows(const AttentionRows& rows, int64_t vector) {
  return rows.col == 1 && rows.offset % vector == 0 && rows.batch % vector == 0 &&
         rows.head % vector == 0 && rows.row % vector == 0;
}

Support support_for(const Specs& s, std::span<const std::pair<size_t, AttentionRows>> operands) {
  const auto vector = static_cast<int64_t>(16 / size_of(s.in[0].dtype));
  IndexSet copied;
  for (const auto& [input, rows] : operands) {
    if (!s.in[input].aligned) return Support::no("an operand does not lie on a 16-byte boundary");
    if (!has_whole_rows(rows, vector)) copied.insert(static_cast<int>(input));
  }
  return Support::yes().with_contiguous(copied);
}

constexpr int64_t kWidest = 128;

Support supports(const AttentionParams& params, const Specs& s) {
  const AttentionProblem p = attention_problem(params, s);
  const std::string reason = why_no_tiles(p, s.in[0].dtype, kWidest);
  return reason.empty() ? support_tiles(p, s) : Support::no(reason);
}

Support supports_grad(const AttentionParams& params, const Specs& s) {
  const AttentionProblem p = attention_grad_problem(params, s);
  const std::string reason = why_no_tiles(p, s.in[0].dtype, kWidest);
  return reason.empty() ? support_grad_tiles(p, s) : Support::no(reason);
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
  AttentionGradProblem grad;
  Products products = Products::half;
};

std::shared_ptr<GradState> prepare_grad(const AttentionParams& params, const Specs& s) {
  auto state = std::make_shared<GradState>();
  state->grad = grad_problem_of(params, s);
  state->products = products_of(s.in[0].dtype);
  state->workspace_bytes = query_terms_bytes(state->grad.problem);
  return state;
}

void run_grad(const AttentionParams&, const GradState& state, const Call& call) {
  const QueryTerms* const rows = describe_queries(state.grad, call);
  const bool half = size_of(call.in[0].dtype()) == 2;
  (half ? differentiate_half : differentiate_float)(state.grad, state.products, rows, call);
}

}  // namespace

namespace attention {

std::string why_no_tiles(const AttentionProblem& p, DType dtype, int64_t widest) {
  constexpr int64_t kMostBlocks = 65535;
  if (dtype == DType::f64) return "computes f32, f16 and bf16";
  const auto vector = static_cast<int64_t>(16 / size_of(dtype));
  if (p.batch * p.heads * p.queries * p.keys == 0) return "nothing to compute";
  if (p.batch > kMostBlocks || p.heads > kMostBlocks) return "too many sequences or heads";
  if (p.width > widest || p.value_width > widest || p.width == 0 || p.value_width == 0)
    return "heads wider than " + std::to_string(widest);
  if (p.width % vector != 0 || p.value_width % vector != 0)
    return "heads that are not whole vectors";
  return {};
}

Support support_tiles(const AttentionProblem& p, const Specs& s) {
  const std::pair<size_t, AttentionRows> operands[] = {{0, p.q}, {1, p.k}, {2, p.v}};
  return support_for(s, std::span(operands).first(p.packed ? 1 : 3));
}

Support support_grad_tiles(const AttentionProblem& p, const Specs& s) {
  const std::pair<size_t, AttentionRows> operands[] = {
      {0, attention_rows(s.in[0])}, {1, p.q}, {kAttentionGradY, p.y}, {2, p.k}, {3, p.v}};
  Support support = support_for(s, std::span(operands).first(p.packed ? 3 : 5));
  support.contiguous |= 1U << kAttentionGradLse | 1U << kAttentionGradDlse;
  return support;
}

AttentionGradProblem grad_problem_of(const AttentionParams& params, const Specs& s) {
  return {attention_grad_problem(params, s), attention_grad_outputs(params, s),
          attention_rows(s.in[0])};
}

}  // namespace attention

Kernel attention_tiles_kernel() { return kernel<supports, prepare, run>("tiles"); }
Kernel attention_grad_tiles_kernel() {
  return kernel<supports_grad, prepare_grad, run_grad>("tiles");
}

}  // namespace mica
