// Which products with few rows our kernel takes, alone and with programs after them.
#include "mica/ops/matmul/cuda_few_rows.h"

#include <limits>
#include <optional>

#include "mica/core/check.h"
#include "mica/ops/anchored/cuda_carried.h"
#include "mica/ops/matmul/cuda_kernels.h"
#include "mica/ops/matmul/problem.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/programmatic_launch.h"
#include "mica/runtime/runtime.h"

namespace mica {

const OpDef& matmul_op();
const OpDef& linear_op();

namespace {

using few_rows::Kind;

struct FewRowsState : KernelState {
  few_rows::Problem problem{};
  bool biased = false;
  unsigned grid = 0;
  few_rows::Known known = nullptr;
  CarriedKernel carried;  ///< where it carries a program
};

Kind kind_of(DType dtype) {
  if (dtype == DType::f32) return Kind::f32;
  return dtype == DType::f16 ? Kind::f16 : Kind::bf16;
}

/// Why a product is not for this kernel; empty where it is.
std::string why_not(const MatmulProblem& p, const Specs& s, bool biased) {
  const DType dtype = s.in[0].dtype;
  if (dtype == DType::f64) return "computes f32, f16 and bf16";
  if (s.in[1].dtype != dtype) return "the operands have two dtypes";
  if (!p.batch.empty()) return "more than one matrix";
  if (p.m > few_rows::kMostRows) return "more than eight rows";
  if (p.m * p.n == 0 || p.k == 0) return "there is nothing to multiply";
  const int64_t vector = few_rows::vector_of(kind_of(dtype));
  if (p.a_col != 1 || p.b_row != 1) return "K does not lie together in the operands";
  if (p.k % vector != 0 || (p.m > 1 && p.a_row % vector != 0) || p.b_col % vector != 0)
    return "rows that are not whole vectors";
  if (p.n > std::numeric_limits<int32_t>::max() / 2 || p.k > std::numeric_limits<int32_t>::max())
    return "it is too large";
  for (size_t i = 0; i < 2; ++i)
    if (!s.in[i].aligned) return "an operand does not lie on a 16-byte boundary";
  return biased && !s.in[2].is_contiguous() ? "a bias with gaps" : "";
}

std::shared_ptr<FewRowsState> describe(const MatmulProblem& p, const Specs& s, bool biased) {
  constexpr int64_t kFewVectors = 4;  // of a lane
  auto state = std::make_shared<FewRowsState>();
  const Kind kind = kind_of(s.in[0].dtype);
  const int64_t vector = few_rows::vector_of(kind);
  few_rows::Problem& own = state->problem;
  own.m = static_cast<int>(p.m);
  own.n = static_cast<int>(p.n);
  own.vectors = static_cast<int>(p.k / vector);
  own.a_pitch = p.a_row / vector;
  own.b_pitch = p.b_col / vector;
  const int64_t blocks_wanted =
      2 * runtime(DeviceKind::cuda).properties(s.out[0].device.index).multiprocessors;
  const auto of_lane = [&] { return own.vectors / (32 * int64_t{own.parts}); };
  own.parts = 1;
  while (own.parts < few_rows::kWarps &&
         (of_lane() > kFewVectors ||
          (of_lane() > 1 && p.n * own.parts / few_rows::kWarps < blocks_wanted)))
    own.parts *= 2;
  const int64_t columns = few_rows::kWarps / own.parts;
  state->grid = static_cast<unsigned>((p.n + columns - 1) / columns);
  state->biased = biased;
  return state;
}

few_rows::Problem problem_of(const FewRowsState& state, const Call& call) {
  few_rows::Problem p = state.problem;
  p.a = call.in[0].data;
  p.b = call.in[1].data;
  p.bias = state.biased ? call.in[2].data : nullptr;
  return p;
}

bool is_biased(const Specs& s) { return s.in.size() > 2 && s.in[2].defined; }

template <auto problem>
Support supports(const NoParams&, const Specs& s) {
  const std::string reason = why_not(problem(s.in[0], s.in[1]), s, is_biased(s));
  return reason.empty() ? Support::yes() : Support::no(reason);
}

template <auto problem>
std::shared_ptr<FewRowsState> prepare(const NoParams&, const Specs& s) {
  auto state = describe(problem(s.in[0], s.in[1]), s, is_biased(s));
  state->known = few_rows::known_kernel(kind_of(s.in[0].dtype), state->problem.m);
  return state;
}

void run(const NoParams&, const FewRowsState& state, const Call& call) {
  const ProgrammaticLaunch overlap;
  call.encoder->launch(state.known, state.grid, few_rows::kWarps * 32, 0, problem_of(state, call),
                       call.out[0].data);
}

bool of_layer(const AnchoredParams& params) { return params.call->op == &linear_op(); }
MatmulProblem problem_of(const AnchoredParams& params, const Specs& s) {
  return of_layer(params) ? linear_problem(s.in[0], s.in[1]) : matmul_problem(s.in[0], s.in[1]);
}

Support supports_carrying(const AnchoredParams& params, const Specs& s) {
  std::string reason = why_not_carried(params, of_layer(params) ? linear_op() : matmul_op(), s);
  if (reason.empty())
    reason = why_not(problem_of(params, s), s, of_layer(params) && s.in[2].defined);
  return reason.empty() ? Support::yes() : Support::no(reason);
}

std::shared_ptr<FewRowsState> prepare_carrying(const AnchoredParams& params, const Specs& s) {
  auto state = describe(problem_of(params, s), s, of_layer(params) && s.in[2].defined);
  const DType dtype = s.in[0].dtype;
  constexpr const char* kKinds[] = {"f32", "f16", "bf16"};
  const char* const type = info_of(dtype).source;
  state->carried =
      load_carried(params, s,
                   {.header = "mica/ops/matmul/cuda_few_rows.cuh",
                    .parameters = "const mica::few_rows::Problem p",
                    .body = fmt::format("mica::few_rows::product<mica::few_rows::Kind::{}, {}>(p, "
                                        "[&](long long at, float sum) {{\n"
                                        "    {} x[1] = {{Into<{}>::from(sum)}};\n"
                                        "    Carried{{end}}(at, x);\n  }});",
                                        kKinds[static_cast<size_t>(kind_of(dtype))],
                                        few_rows::most_of(state->problem.m), type, type),
                    .bounds = std::to_string(few_rows::kWarps * 32),
                    .few_digits = dtype != DType::f32});
  return state;
}

void run_carrying(const AnchoredParams& params, const FewRowsState& state, const Call& call) {
  const ProgrammaticLaunch overlap;
  call.encoder->launch(
      reinterpret_cast<void (*)(few_rows::Problem, fused::KernelArgs)>(state.carried.kernel),
      state.grid, few_rows::kWarps * 32, 0, problem_of(state, call),
      state.carried.arguments(params, call));
}

}  // namespace

Kernel matmul_few_rows_kernel() {
  return kernel<supports<matmul_problem>, prepare<matmul_problem>, run>("few_rows");
}
Kernel linear_few_rows_kernel() {
  return kernel<supports<linear_problem>, prepare<linear_problem>, run>("few_rows");
}
Kernel product_carrying_few_rows_kernel() {
  return kernel<supports_carrying, prepare_carrying, run_carrying>("product_few_rows");
}

}  // namespace mica
