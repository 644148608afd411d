// The kernels of convolutions by cuDNN: which plan, with the bias in it or not, or one of our own.
#include <array>
#include <limits>
#include <mutex>
#include <unordered_map>

#include "mica/core/check.h"
#include "mica/op/cuda_trial.h"
#include "mica/op/settings.h"
#include "mica/op/tuning.h"
#include "mica/ops/conv/cuda_passes.h"
#include "mica/ops/conv/cuda_plans.h"
#include "mica/ops/conv/shape.h"
#include "mica/ops/conv2d/conv2d.h"
#include "mica/ops/conv2d/cuda_kernels.h"
#include "mica/ops/conv2d_act/conv2d_act.h"
#include "mica/ops/conv2d_act/cuda_kernels.h"
#include "mica/ops/conv3d/conv3d.h"
#include "mica/ops/conv3d/cuda_kernels.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

constexpr size_t kWorkspaceAlignment = 256;
constexpr size_t kMostChoices = 512;
constexpr size_t kMostTimed = 16;

/// Everything a plan depends on, but the device and the libraries.
std::string key_of(const ConvProblem& p) {
  return fmt::format("{} {} {} {} {}{} {} {} {} {} {} {} {} {}", p.op(), p.dtype,
                     !p.channels_last       ? "row-major"
                     : p.row_major_gradient ? "channels_last to row-major"
                                            : "channels_last",
                     p.bias ? "biased" : "", p.residual ? "residual " : "",
                     p.joined ? print_field(p.activation) : "", p.x, p.weight, p.stride, p.padding,
                     p.dilation, deterministic(), allow_tf32(), conv_workspace_limit());
}

/// The kernel's own rivals: our kernels of the same op, the reference last.
struct Rivals {
  const OpDef& op;
  KernelList kernels;
  const void* params;

  /// Whether one of them claims the specs for itself; the reference never does.
  bool claim(const Specs& specs) const {
    for (size_t i = 0; i + 1 < kernels.size(); ++i)
      if (kernels[i].supports(op, params, specs).kind == Support::Kind::preferred) return true;
    return false;
  }
};

struct CudnnState : KernelState {
  std::shared_ptr<const ConvPlan> plan;
  bool bias_in_graph = false;
  /// Bytes at the start of the workspace for a channels_last weight gradient, which is then copied
  /// to the row-major output.
  size_t weight_bytes = 0;
};

using States = std::vector<std::shared_ptr<CudnnState>>;

/// A state, or why there is none.
struct Choice {
  std::shared_ptr<CudnnState> state;
  std::string reason;
  bool rival_is_faster = false;  ///< as timed
};

template <class P>
void run(const P&, const CudnnState& state, const Call& call) {
  const Arg& bias = call.in[2];
  std::array<void*, 5> pointers = {call.in[0].data, call.in[1].data};
  size_t count = 2;
  if (state.bias_in_graph) pointers[count++] = bias.data;
  if (call.in.size() > 3 && call.in[3].defined()) pointers[count++] = call.in[3].data;
  pointers[count++] = call.out[0].data;
  state.plan->execute(*call.encoder, {pointers.data(), count}, call.workspace);
  if (bias.defined() && !state.bias_in_graph) add_channel_bias(*call.encoder, call.out[0], bias);
}

template <class P>
void run_gradient(const P&, const CudnnState& state, const Call& call) {
  auto* workspace = static_cast<std::byte*>(call.workspace);
  const bool copies = state.weight_bytes > 0;
  void* pointers[] = {call.in[0].data, call.in[1].data, copies ? workspace : call.out[0].data};
  state.plan->execute(*call.encoder, pointers, copies ? workspace + state.weight_bytes : workspace);
  if (copies) weight_to_row_major(*call.encoder, workspace, call.out[0]);
}

/// The specs of a call as the plan takes them.
struct PlanSpecs {
  std::vector<TensorSpec> in;
  TensorSpec out;
  Specs specs() const { return {in, {&out, 1}}; }
};

PlanSpecs specs_of(const ConvProblem& p) {
  const auto spec = [&](const Shape& shape) {
    TensorSpec s = TensorSpec::contiguous(shape, p.dtype, p.device);
    s.strides = p.strides(shape);
    return s;
  };
  switch (p.pass) {
    case ConvPass::forward: {
      const TensorSpec bias = TensorSpec::contiguous({p.y[1]}, p.dtype, p.device);
      PlanSpecs specs{{spec(p.x), spec(p.weight), p.bias ? bias : TensorSpec()}, spec(p.y)};
      if (p.joined) specs.in.push_back(p.residual ? spec(p.y) : TensorSpec());
      return specs;
    }
    case ConvPass::dgrad:
      return {{spec(p.y), spec(p.weight)}, spec(p.x)};
    case ConvPass::wgrad:
      break;
  }
  if (!p.row_major_gradient) return {{spec(p.y), spec(p.x)}, spec(p.weight)};
  return {{spec(p.y), spec(p.x)}, TensorSpec::contiguous(p.weight, p.dtype, p.device)};
}

/// Times the plans and our own kernels; false where there is no memory to time in.
bool time_plans(const ConvProblem& p, const Rivals& rivals, const States& states, Choice& best) {
  try {
    const PlanSpecs specs = specs_of(p);
    const CudaTrial trial(p.op(), specs.specs());
    double least = std::numeric_limits<double>::infinity();
    for (const auto& state : states) {
      const double time = trial.microseconds(
          state->workspace_bytes,
          [&](const Call& call) {
            if (p.pass == ConvPass::forward) {
              run(NoParams{}, *state, call);
            } else {
              run_gradient(NoParams{}, *state, call);
            }
          },
          least);
      trial.tell("cudnn's " + state->plan->name() + (state->bias_in_graph ? " with the bias" : ""),
                 time);
      if (time >= least) continue;
      least = time;
      best.state = state;
    }
    for (const Kernel& kernel : rivals.kernels)
      if (trial.microseconds(rivals.op, kernel, rivals.params, least) < least)
        best.rival_is_faster = true;
    return true;
  } catch (const OutOfMemory&) {
    return false;
  }
}

/// Room for a channels_last weight gradient before it is copied to the row-major output.
size_t weight_bytes(const ConvProblem& p) {
  if (!p.channels_last || !p.row_major_gradient) return 0;
  const size_t bytes = static_cast<size_t>(numel(p.weight)) * size_of(p.dtype);
  return (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
}

void add_plans(States& states, const ConvProblem& p, bool bias, size_t most,
               const std::string& only, std::string& reason) {
  for (auto& plan : find_conv_plans(p, bias, most, only, reason)) {
    auto state = std::make_shared<CudnnState>();
    state->weight_bytes = weight_bytes(p);
    state->workspace_bytes = state->weight_bytes + plan->workspace_bytes();
    state->bias_in_graph = bias;
    state->plan = std::move(plan);
    states.push_back(std::move(state));
  }
}

// An answer on disk: who was faster, whether the plan holds the bias, the plan's name.
constexpr const char* kAnswers[2][2] = {{"cudnn ", "cudnn biased "}, {"rival ", "rival biased "}};

std::string answer_of(const Choice& choice) {
  return kAnswers[choice.rival_is_faster][choice.state->bias_in_graph] + choice.state->plan->name();
}

/// The plan of an answer, or none where the library does not have it.
Choice recall(const ConvProblem& p, const std::string& answer) {
  for (const bool rival : {false, true})
    for (const bool bias : {true, false}) {  // the longer word first
      const std::string_view words = kAnswers[rival][bias];
      if (!answer.starts_with(words) || (bias && !p.bias)) continue;
      States states;
      std::string reason;
      add_plans(states, p, bias, 1, answer.substr(words.size()), reason);
      if (states.empty()) return {};
      return {states[0], {}, rival};
    }
  return {};
}

Choice choose(const ConvProblem& p, const Rivals& rivals) {
  const bool timed = autotune() && !deterministic();
  const std::string tuning_key = key_of(p) + " " + cuda_tuning_key(p.device.index);
  if (timed)
    if (const auto answer = find_tuned(tuning_key))
      if (Choice choice = recall(p, *answer); choice.state) return choice;
  const size_t most = timed ? kMostTimed : 1;
  States states;
  std::string reason;
  // With the bias in the graph f16 and bf16 save a pass; for f32 there are few such engines, which
  // only timing finds worth it.
  if (p.joined) add_plans(states, p, p.bias, most, {}, reason);
  if (!p.joined && p.bias && (timed || p.dtype != DType::f32))
    add_plans(states, p, true, (most + 1) / 2, {}, reason);
  if (!p.joined && states.size() < most)
    add_plans(states, p, false, most - states.size(), {}, reason);
  if (states.empty()) return {nullptr, reason};
  Choice best{states[0], {}};
  if (timed && time_plans(p, rivals, states, best)) {
    keep_tuned(tuning_key, answer_of(best));
  } else {
    const PlanSpecs specs = specs_of(p);
    best.rival_is_faster = rivals.claim(specs.specs());
  }
  return best;
}

/// `supports` has to build a plan to know that there is one; `prepare` finds it here.
Choice find_choice(const ConvProblem& p, const Rivals& rivals) {
  struct Cache {
    std::recursive_mutex mutex;  // a rival may be made of convolutions
    std::unordered_map<std::string, Choice> choices;
  };
  // Never destroyed: at exit the library may be gone before its plans.
  static auto* cache = new Cache;
  const std::string key = fmt::format("{} {} {}", key_of(p), p.device, autotune());
  const std::lock_guard lock(cache->mutex);
  if (const auto it = cache->choices.find(key); it != cache->choices.end()) return it->second;
  if (cache->choices.size() >= kMostChoices) cache->choices.clear();
  return cache->choices.emplace(key, choose(p, rivals)).first->second;
}

template <class P>
ConvProblem problem_of(ConvPass pass, const P& conv, const Shape& x, const Shape& weight,
                       const Shape& y, const TensorSpec& out) {
  return {pass,
          x,
          weight,
          y,
          dims_of(conv.stride),
          dims_of(conv.padding),
          dims_of(conv.dilation),
          out.dtype,
          out.device,
          false,
          false};
}

template <class P>
ConvProblem forward_problem(const P& params, const Specs& specs) {
  const TensorSpec& x = specs.in[0];
  const TensorSpec& y = specs.out[0];
  ConvProblem p = problem_of(ConvPass::forward, params, x.shape, specs.in[1].shape, y.shape, y);
  p.channels_last = works_channels_last(y, x);
  p.bias = specs.in[2].defined;
  return p;
}

ConvProblem joined_problem(const Conv2dActParams& params, const Specs& specs) {
  ConvProblem p = forward_problem(params.conv, specs);
  p.joined = true;
  p.residual = specs.in[3].defined;
  p.activation = params.activation;
  return p;
}

template <class P>
ConvProblem dgrad_problem(const P& params, const Specs& specs) {
  const TensorSpec& dy = specs.in[0];
  const TensorSpec& dx = specs.out[0];
  ConvProblem p =
      problem_of(ConvPass::dgrad, params.conv, dx.shape, specs.in[1].shape, dy.shape, dx);
  p.channels_last = works_channels_last(dx, dy);
  return p;
}

template <class P>
ConvProblem wgrad_problem(const P& params, const Specs& specs) {
  const TensorSpec& dy = specs.in[0];
  const TensorSpec& x = specs.in[1];
  ConvProblem p =
      problem_of(ConvPass::wgrad, params.conv, x.shape, specs.out[0].shape, dy.shape, specs.out[0]);
  p.channels_last = works_channels_last(x, dy) || specs.out[0].is_channels_last();
  p.row_major_gradient = !specs.out[0].is_channels_last_dense();
  return p;
}

template <auto problem, auto rivals, class P>
Support supports(const OpDef& op, const P& params, const Specs& specs) {
  const TensorSpec& out = specs.out[0];
  if (out.dtype == DType::f64) return Support::no("f64 is left to the direct kernel");
  if (out.numel() == 0 || specs.in[0].numel() == 0 || specs.in[1].numel() == 0)
    return Support::no("a tensor is empty");
  const ConvProblem p = problem(params, specs);
  if (p.joined && out.dtype == DType::f32) return Support::no("computes f16 and bf16 only");
  const auto has_layout = [&](const TensorSpec& s) {
    return p.channels_last ? s.is_channels_last_dense() : s.is_contiguous();
  };
  for (const TensorSpec& s : specs.in)
    if (s.defined && !s.aligned && (s.rank() == 1 || has_layout(s)))
      return Support::no("an input does not lie on a 16-byte boundary");
  if (!out.aligned) return Support::no("the output does not lie on a 16-byte boundary");
  if (!has_layout(out) && !(p.row_major_gradient && out.is_contiguous()))
    return Support::no("the output is neither row-major nor channels_last");
  const Choice choice = find_choice(p, {op, rivals(), &params});
  if (!choice.state) return Support::no(choice.reason);
  Support support = choice.rival_is_faster ? Support::possible() : Support::yes();
  (p.channels_last ? support.channels_last : support.contiguous) = 0b11;
  if (p.residual) (p.channels_last ? support.channels_last : support.contiguous) |= 0b1000;
  if (p.bias) support.contiguous |= 0b100;
  return support;
}

template <auto problem, auto rivals, class P>
std::shared_ptr<CudnnState> prepare(const OpDef& op, const P& params, const Specs& specs) {
  const ConvProblem p = problem(params, specs);
  const Choice choice = find_choice(p, {op, rivals(), &params});
  check<Unsupported>(choice.state != nullptr, "{}: {}", p.op(), choice.reason);
  // A plan from the cache may come to a stream that has no handle yet, and `run` must not make one.
  runtime(DeviceKind::cuda).encoder(p.device.index)->cudnn();
  return choice.state;
}

KernelList with_rivals(Kernel cudnn, const KernelList& rivals) {
  KernelList list{cudnn};
  list.insert(list.end(), rivals.begin(), rivals.end());
  return list;
}

template <class P, auto rivals>
KernelList forward_kernels() {
  return with_rivals(kernel<supports<forward_problem<P>, rivals, P>,
                            prepare<forward_problem<P>, rivals, P>, run<P>>("cudnn"),
                     rivals());
}
template <class P, auto problem, auto rivals>
KernelList gradient_kernels() {
  return with_rivals(
      kernel<supports<problem, rivals, P>, prepare<problem, rivals, P>, run_gradient<P>>("cudnn"),
      rivals());
}

}  // namespace

KernelList conv2d_cuda_kernels() { return forward_kernels<Conv2dParams, conv2d_own_kernels>(); }
KernelList conv2d_act_cuda_kernels() {
  constexpr auto rivals = conv2d_act_own_kernels;
  return with_rivals(
      kernel<supports<joined_problem, rivals, Conv2dActParams>,
             prepare<joined_problem, rivals, Conv2dActParams>, run<Conv2dActParams>>("cudnn"),
      rivals());
}
KernelList conv2d_dgrad_cuda_kernels() {
  return gradient_kernels<Conv2dGradParams, dgrad_problem<Conv2dGradParams>,
                          conv2d_dgrad_own_kernels>();
}
KernelList conv2d_wgrad_cuda_kernels() {
  return gradient_kernels<Conv2dGradParams, wgrad_problem<Conv2dGradParams>,
                          conv2d_wgrad_own_kernels>();
}

KernelList conv3d_cuda_kernels() { return forward_kernels<Conv3dParams, conv3d_own_kernels>(); }
KernelList conv3d_dgrad_cuda_kernels() {
  return gradient_kernels<Conv3dGradParams, dgrad_problem<Conv3dGradParams>,
                          conv3d_dgrad_own_kernels>();
}
KernelList conv3d_wgrad_cuda_kernels() {
  return gradient_kernels<Conv3dGradParams, wgrad_problem<Conv3dGradParams>,
                          conv3d_wgrad_own_kernels>();
}

}  // namespace mica
