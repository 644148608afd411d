// Attention by the tensor cores of compute capability 9.0: which calls, and how their kernels are
// compiled.
#include "mica/ops/attention/cuda_wgmma.h"
#include "mica/core/check.h"
#include "mica/ops/attention/cuda_kernels.h"
#include "mica/ops/attention/cuda_tiles.h"
#include "mica/ops/fused/cuda_generated.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

using namespace mica::attention;

constexpr int64_t kWidest = 128;

/// Why a call is not for these kernels; empty where it is.
std::string why_not(const AttentionProblem& p, const Specs& s) {
  constexpr int64_t kLongest = 1 << 30;
  const DType dtype = s.in[0].dtype;
  if (dtype != DType::f16 && dtype != DType::bf16) return "computes f16 and bf16";
  if (runtime(DeviceKind::cuda).properties(s.out[0].device.index).compute_capability != 90)
    return "the GPU is not of compute capability 9.0";
  if (p.queries > kLongest || p.keys > kLongest) return "too many queries or keys";
  if (p.dropout > 0 && p.keys % 2 != 0) return "dropout of an odd number of keys";
  return why_no_tiles(p, dtype, kWidest);
}

Support supports(const AttentionParams& params, const Specs& s) {
  const AttentionProblem p = attention_problem(params, s);
  const std::string reason = why_not(p, s);
  return reason.empty() ? support_tiles(p, s) : Support::no(reason);
}

Support supports_grad(const AttentionParams& params, const Specs& s) {
  const AttentionProblem p = attention_grad_problem(params, s);
  const std::string reason = why_not(p, s);
  return reason.empty() ? support_grad_tiles(p, s) : Support::no(reason);
}

/// Whether scores need but a positive factor before their largest is looked for.
bool is_plain(const AttentionProblem& p) {
  constexpr double kLeast = 1e-30;
  return p.mask == AttentionMask::none && p.scale > kLeast;
}

struct Compiled {
  cudaKernel_t kernel = nullptr;
  WgmmaShape shape{};
};

/// A kernel whose body calls `call` and that has these parameters beside the problem's.
Compiled compile(const char* op, const AttentionProblem& p, const Specs& s, WgmmaShape shape,
                 const char* parameters, const char* call) {
  constexpr const char* kMasks[] = {"none", "boolean", "added"};
  // What masks and dropout take of registers is left to one block.
  if (p.mask != AttentionMask::none || p.dropout > 0) shape.blocks = 1;
  const std::string source = fmt::format(
      "#include \"mica/ops/attention/cuda_wgmma.cuh\"\n"
      "using namespace mica;\nusing namespace mica::attention;\n"
      "struct How {{\n"
      "  using T = fused::{};\n"
      "  static constexpr int kWidth = {}, kGroups = {}, kOthers = {};\n"
      "  static constexpr AttentionMask kMask = AttentionMask::{};\n"
      "  static constexpr bool kDrops = {}, kPlain = {};\n"
      "}};\n"
      "extern \"C\" __global__ void __launch_bounds__({}, {})\n"
      "    fused({}, const __grid_constant__ Terms terms,\n"
      "          const __grid_constant__ Dropping dropping, {}) {{\n  {};\n}}\n",
      info_of(s.in[0].dtype).source, shape.width, shape.groups, shape.others,
      kMasks[static_cast<size_t>(p.mask)], p.dropout > 0, is_plain(p), shape.groups * kGroupThreads,
      shape.blocks,
      std::string_view(call).starts_with("attend")
          ? "const __grid_constant__ AttentionProblem p"
          : "const __grid_constant__ AttentionGradProblem p",
      parameters, call);
  return {load_generated(op, source, s.out[0].device.index), shape};
}

bool is_wide(const AttentionProblem& p) { return p.width > 64 || p.value_width > 64; }

template <class... Parameters, class... Arguments>
void launch(const Compiled& c, int shared_bytes, int64_t rows, int64_t heads, int64_t batch,
            const Call& call, void (*)(Parameters...), Arguments&&... arguments) {
  const int64_t of_block = int64_t{c.shape.groups} * kGroupRows;
  const dim3 grid(static_cast<unsigned>((rows + of_block - 1) / of_block),
                  static_cast<unsigned>(heads), static_cast<unsigned>(batch));
  call.encoder->launch(reinterpret_cast<void (*)(Parameters...)>(c.kernel), grid,
                       static_cast<unsigned>(c.shape.groups * kGroupThreads),
                       static_cast<size_t>(shared_bytes), std::forward<Arguments>(arguments)...);
}

struct State : KernelState {
  AttentionProblem problem;
  Compiled kernel;
};

std::shared_ptr<State> prepare(const AttentionParams& params, const Specs& s) {
  auto state = std::make_shared<State>();
  state->problem = attention_problem(params, s);
  const AttentionProblem& p = state->problem;
  const WgmmaShape shape = is_wide(p) ? WgmmaShape{128, 2, 64, 1} : WgmmaShape{64, 2, 64, 2};
  state->kernel = compile("attention", p, s, shape,
                          "const void* q, const void* k, const void* v, void* y, float* lse",
                          "attend<How>(p, terms, dropping, q, k, v, y, lse)");
  return state;
}

using AttendSignature = void (*)(AttentionProblem, Terms, Dropping, const void*, const void*,
                                 const void*, void*, float*);

void run(const AttentionParams&, const State& state, const Call& call) {
  const AttentionProblem& p = state.problem;
  launch(state.kernel, forward_bytes(state.kernel.shape), p.queries, p.heads, p.batch, call,
         AttendSignature{}, p, terms_of(call, kAttentionInputs), dropping_of(p), call.in[0].data,
         call.in[p.packed ? 0 : 1].data, call.in[p.packed ? 0 : 2].data, call.out[0].data,
         call.out[1].as<float>());
}

struct GradState : KernelState {
  AttentionGradProblem grad;
  Compiled keys, queries;
};

std::shared_ptr<GradState> prepare_grad(const AttentionParams& params, const Specs& s) {
  auto state = std::make_shared<GradState>();
  state->grad = grad_problem_of(params, s);
  const AttentionProblem& p = state->grad.problem;
  const WgmmaShape shape = is_wide(p) ? WgmmaShape{128, 2, 64, 1} : WgmmaShape{64, 2, 64, 1};
  const auto compiled = [&](const char* call) {
    return compile("attention_grad", p, s, shape, "const __grid_constant__ WgmmaGradPointers t",
                   call);
  };
  state->keys = compiled("differentiate_keys<How>(p, terms, dropping, t)");
  state->queries = compiled("differentiate_queries<How>(p, terms, dropping, t)");
  state->workspace_bytes = query_terms_bytes(p);
  return state;
}

using GradSignature = void (*)(AttentionGradProblem, Terms, Dropping, WgmmaGradPointers);

void run_grad(const AttentionParams&, const GradState& state, const Call& call) {
  const AttentionProblem& p = state.grad.problem;
  const auto operand = [&](size_t i) { return call.in[p.packed ? 1 : i].data; };
  const auto result = [&](size_t i) { return call.out[p.packed ? 0 : i].data; };
  const WgmmaGradPointers t{
      call.in[0].data, operand(1), operand(2), operand(3), describe_queries(state.grad, call),
      result(0),       result(1),  result(2)};
  const Terms terms = terms_of(call, kAttentionGradInputs);
  const Dropping dropping = dropping_of(p);
  launch(state.keys, grad_key_bytes(state.keys.shape), p.keys, p.kv_heads, p.batch, call,
         GradSignature{}, state.grad, terms, dropping, t);
  launch(state.queries, grad_query_bytes(state.queries.shape), p.queries, p.heads, p.batch, call,
         GradSignature{}, state.grad, terms, dropping, t);
}

}  // namespace

Kernel attention_wgmma_kernel() { return kernel<supports, prepare, run>("wgmma"); }
Kernel attention_grad_wgmma_kernel() {
  return kernel<supports_grad, prepare_grad, run_grad>("wgmma");
}

}  // namespace mica
