#include "mica/ops/conv/cuda_cudnn.h"

#include <array>
#include <mutex>
#include <unordered_map>

#include "mica/core/check.h"
#include "mica/op/settings.h"
#include "mica/ops/conv/cuda_passes.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

constexpr size_t kWorkspaceAlignment = 256;
constexpr size_t kMostKept = 512;
constexpr size_t kMostCandidates = 16;

struct CudnnState : KernelState {
  std::shared_ptr<const ConvPlan> plan;
  bool bias_in_graph = false;
  /// Bytes at the start of the workspace for a channels_last weight gradient, which is then copied
  /// to the row-major output.
  size_t weight_bytes = 0;
};

/// Room for a channels_last weight gradient before it is copied to the row-major output.
size_t weight_bytes(const ConvProblem& p) {
  if (!p.channels_last || !p.row_major_gradient) return 0;
  const size_t bytes = static_cast<size_t>(numel(p.weight)) * size_of(p.dtype);
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

// A candidate's name: whether the plan holds the bias, and where, and the plan's own name.
constexpr const char* kBiased = "biased ";
constexpr const char* kBiasFirst = "bias first ";
constexpr const char* kPlain = "plain ";

/// Plans of one kind. Of `only`, a candidate's name, the part that is a plan's name is looked for.
void add_plans(std::vector<Candidate>& found, const ConvProblem& p, bool bias, size_t most,
               const std::string& only, double estimate, std::string& reason) {
  const std::string kind = !bias ? kPlain : p.bias_first ? kBiasFirst : kBiased;
  if (most == 0 || (!only.empty() && !only.starts_with(kind))) return;
  const std::string plan_name = only.empty() ? only : only.substr(kind.size());
  for (auto& plan : find_conv_plans(p, bias, most, plan_name, reason)) {
    auto state = std::make_shared<CudnnState>();
    state->weight_bytes = weight_bytes(p);
    state->workspace_bytes = state->weight_bytes + plan->workspace_bytes();
    state->bias_in_graph = bias;
    state->plan = std::move(plan);
    std::string name = kind + state->plan->name();
    found.push_back({std::move(name), estimate, std::move(state)});
    estimate += 1;  // the library gives its plans in the order of its own estimate
  }
}

std::vector<Candidate> find_candidates(const ConvProblem& p, const CandidateRequest& request) {
  const size_t most = request.count(kMostCandidates);
  std::vector<Candidate> found;
  std::string reason;
  // With the bias in the graph f16 and bf16 save a pass; for f32 there are few such engines, which
  // only timing finds worth it.
  const bool only_biased = p.joined && p.bias;
  const bool two_orders = only_biased && p.residual && most > 1;
  const bool bias_later = p.dtype == DType::f32;
  if (p.bias && (p.joined || !bias_later || most > 1))
    add_plans(found, p, true, only_biased && !two_orders ? most : (most + 1) / 2, request.only,
              bias_later ? kMostCandidates : 0, reason);
  if (two_orders && found.size() < most) {
    ConvProblem other = p;
    other.bias_first = true;
    add_plans(found, other, true, most - found.size(), request.only, kMostCandidates, reason);
  }
  if (!only_biased && found.size() < most)
    add_plans(found, p, false, most - found.size(), request.only, bias_later ? 0 : kMostCandidates,
              reason);
  check<Unsupported>(!found.empty() || !request.only.empty(), "{}: {}", p.op(), reason);
  return found;
}

/// Everything that candidates depend on.
std::string key_of(const ConvProblem& p, const CandidateRequest& request) {
  return fmt::format("{} {} {} {} {} {} {}{} {} {} {} {} {} {} {} {} {} {} {} {}", p.op(), p.dtype,
                     p.device, p.out, p.scaled_residual,
                     !p.channels_last       ? "row-major"
                     : p.row_major_gradient ? "channels_last to row-major"
                                            : "channels_last",
                     p.bias ? "biased" : "", p.residual ? "residual " : "",
                     p.joined ? static_cast<int>(p.activation) : -1, p.x, p.weight, p.stride,
                     p.padding, p.dilation, deterministic(), allow_tf32(), conv_workspace_limit(),
                     request.most, request.only.empty(), request.only);
}

}  // namespace

void run_cudnn_plan(const KernelState& state, std::span<void*> pointers, const Call& call) {
  static_cast<const CudnnState&>(state).plan->execute(*call.encoder, pointers, call.workspace);
}

void run_cudnn_forward(const KernelState& kernel_state, const Call& call) {
  const auto& state = static_cast<const CudnnState&>(kernel_state);
  const Arg& bias = call.in[2];
  std::array<void*, 5> pointers = {call.in[0].data, call.in[1].data};
  size_t count = 2;
  if (state.bias_in_graph) pointers[count++] = bias.data;
  if (call.in.size() > 3 && call.in[3].defined()) pointers[count++] = call.in[3].data;
  pointers[count++] = call.out[0].data;
  state.plan->execute(*call.encoder, {pointers.data(), count}, call.workspace);
  if (bias.defined() && !state.bias_in_graph) add_channel_bias(*call.encoder, call.out[0], bias);
}

void run_cudnn_gradient(const KernelState& kernel_state, const Call& call) {
  const auto& state = static_cast<const CudnnState&>(kernel_state);
  auto* workspace = static_cast<std::byte*>(call.workspace);
  const bool copies = state.weight_bytes > 0;
  void* pointers[] = {call.in[0].data, call.in[1].data, copies ? workspace : call.out[0].data};
  state.plan->execute(*call.encoder, pointers, copies ? workspace + state.weight_bytes : workspace);
  if (copies) weight_to_row_major(*call.encoder, workspace, call.out[0]);
}

Support supports_cudnn(const ConvProblem& p, const Specs& specs) {
  const TensorSpec& out = specs.out[0];
  if (out.dtype == DType::f64) return Support::no("f64 is left to the direct kernel");
  if (out.numel() == 0 || specs.in[0].numel() == 0 || specs.in[1].numel() == 0)
    return Support::no("a tensor is empty");
  const auto has_layout = [&](const TensorSpec& s) {
    return p.channels_last ? s.is_channels_last_dense() : s.is_contiguous();
  };
  for (const TensorSpec& s : specs.in)
    if (s.defined && !s.aligned && (s.rank() == 1 || has_layout(s)))
      return Support::no("an input does not lie on a 16-byte boundary");
  if (!out.aligned) return Support::no("the output does not lie on a 16-byte boundary");
  if (!has_layout(out) && !(p.row_major_gradient && out.is_contiguous()))
    return Support::no("the output is neither row-major nor channels_last");
  Support support = Support::yes();
  auto& layout = p.channels_last ? support.channels_last : support.contiguous;
  layout = p.residual ? 0b1011 : 0b11;
  if (p.bias) support.contiguous |= 0b100;
  return support;
}

std::vector<Candidate> cudnn_candidates(const ConvProblem& p, const CandidateRequest& request) {
  // To build a plan takes milliseconds, and another setting may ask for the same ones again. Never
  // destroyed: at exit the library may be gone before its plans.
  static std::mutex mutex;
  static auto* const kept = new std::unordered_map<std::string, std::vector<Candidate>>;
  const std::string key = key_of(p, request);
  // A plan that is kept may come to a stream that has no handle yet, and `run` must not make one.
  runtime(DeviceKind::cuda).encoder(p.device.index)->cudnn();
  const std::lock_guard lock(mutex);
  if (const auto it = kept->find(key); it != kept->end()) return it->second;
  if (kept->size() >= kMostKept) kept->clear();
  return kept->emplace(key, find_candidates(p, request)).first->second;
}

}  // namespace mica
