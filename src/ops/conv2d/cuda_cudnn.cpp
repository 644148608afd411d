// Convolutions by cuDNN's graph API. The only file that includes cudnn-frontend, which is slow to
// compile.
#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <limits>
#include <mutex>
#include <unordered_map>

#include "mica/core/check.h"
#include "mica/op/settings.h"
#include "mica/ops/conv2d/cuda_kernels.h"
#include "mica/ops/conv2d/cuda_trial.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

namespace fe = cudnn_frontend;
using TensorPtr = std::shared_ptr<fe::graph::Tensor_attributes>;

constexpr int64_t kWorkspaceLimit = int64_t{256} << 20;
constexpr size_t kWorkspaceAlignment = 256;
constexpr size_t kMostPlans = 512;
constexpr size_t kMostTimed = 8;

/// Everything a plan depends on.
std::string key_of(const ConvProblem& p) {
  const auto& g = p.geometry;
  return fmt::format("{} {} {} {} {} {} {} {} {}x{} {}x{} {}x{} {} {} {}", p.op(), p.dtype,
                     p.device, p.channels_last, p.bias, p.x(), p.weight(), g.groups, g.stride.h,
                     g.stride.w, g.padding.h, g.padding.w, g.dilation.h, g.dilation.w,
                     deterministic(), allow_tf32(), autotune());
}

struct CudnnState : KernelState {
  std::shared_ptr<const fe::graph::Graph> graph;
  int64_t plan = 0;  ///< which of the graph's plans
  bool bias_in_graph = false;
  /// Bytes at the start of the workspace for a channels_last weight gradient, which is then copied
  /// to the row-major output.
  size_t weight_bytes = 0;
};

using States = std::vector<std::shared_ptr<CudnnState>>;

/// A plan, or why there is none.
struct Plan {
  std::shared_ptr<CudnnState> state;
  std::string reason;
  bool direct_is_faster = false;  ///< as timed
};

fe::DataType_t data_type(DType t) {
  if (t == DType::f16) return fe::DataType_t::HALF;
  return t == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::FLOAT;
}

std::vector<int64_t> to_vector(const Dims& dims) { return {dims.begin(), dims.end()}; }

/// Tensors are passed to the graph in the order of their numbers: inputs 1 and 2, the bias, the
/// output.
enum Uid : int64_t { kFirst = 1, kSecond = 2, kBias = 3, kOutput = 4 };

void describe(fe::graph::Tensor_attributes& tensor, Uid uid, const ConvProblem& p,
              const Shape& shape) {
  tensor.set_uid(uid)
      .set_data_type(data_type(p.dtype))
      .set_dim(to_vector(shape))
      .set_stride(
          to_vector(p.channels_last ? channels_last_strides(shape) : contiguous_strides(shape)));
}

TensorPtr add_input(fe::graph::Graph& graph, Uid uid, const ConvProblem& p, const Shape& shape) {
  fe::graph::Tensor_attributes tensor;
  describe(tensor, uid, p, shape);
  return graph.tensor(tensor);
}

template <class Attributes>
Attributes conv_attributes(const Conv2dGeometry& g) {
  Attributes a;
  a.set_padding({g.padding.h, g.padding.w})
      .set_stride({g.stride.h, g.stride.w})
      .set_dilation({g.dilation.h, g.dilation.w});
  return a;
}

std::shared_ptr<fe::graph::Graph> describe_graph(const ConvProblem& p, bool bias) {
  auto graph = std::make_shared<fe::graph::Graph>();
  graph->set_io_data_type(data_type(p.dtype))
      .set_intermediate_data_type(fe::DataType_t::FLOAT)
      .set_compute_data_type(fe::DataType_t::FLOAT);
  TensorPtr out;
  Shape out_shape;
  switch (p.pass) {
    case ConvPass::forward: {
      out_shape = p.y();
      const TensorPtr x = add_input(*graph, kFirst, p, p.x());
      const TensorPtr weight = add_input(*graph, kSecond, p, p.weight());
      out = graph->conv_fprop(x, weight,
                              conv_attributes<fe::graph::Conv_fprop_attributes>(p.geometry));
      if (bias) {
        fe::graph::Pointwise_attributes add;
        add.set_mode(fe::PointwiseMode_t::ADD);
        out = graph->pointwise(out, add_input(*graph, kBias, p, {1, p.geometry.o, 1, 1}), add);
      }
      break;
    }
    case ConvPass::dgrad: {
      out_shape = p.x();
      const TensorPtr dy = add_input(*graph, kFirst, p, p.y());
      const TensorPtr weight = add_input(*graph, kSecond, p, p.weight());
      out = graph->conv_dgrad(dy, weight,
                              conv_attributes<fe::graph::Conv_dgrad_attributes>(p.geometry));
      break;
    }
    case ConvPass::wgrad: {
      out_shape = p.weight();
      const TensorPtr dy = add_input(*graph, kFirst, p, p.y());
      const TensorPtr x = add_input(*graph, kSecond, p, p.x());
      out = graph->conv_wgrad(dy, x, conv_attributes<fe::graph::Conv_wgrad_attributes>(p.geometry));
      break;
    }
  }
  describe(*out, kOutput, p, out_shape);
  out->set_output(true);
  return graph;
}

/// Leaves out the plans that compute otherwise than the settings allow.
void deselect(fe::graph::Graph& graph, DType dtype) {
  using Note = fe::NumericalNote_t;
  std::vector<Note> notes = {Note::REDUCED_PRECISION_REDUCTION};
  if (dtype == DType::f32) {
    notes.push_back(Note::DOWN_CONVERT_INPUTS);
    // On f32 data tensor cores mean TF32.
    if (!allow_tf32()) notes.push_back(Note::TENSOR_CORE);
  }
  if (deterministic()) notes.push_back(Note::NONDETERMINISTIC);
  graph.deselect_numeric_notes(notes);
  graph.deselect_workspace_greater_than(kWorkspaceLimit);
}

/// Adds the graph's first plans by the heuristic that build, until there are `most`; gives the
/// reason where it adds none.
std::string add_plans(States& states, const ConvProblem& p, bool bias, size_t most) {
  const auto graph = describe_graph(p, bias);
  const cudnnHandle_t handle = runtime(DeviceKind::cuda).encoder(p.device)->cudnn();
  std::string reason;
  const auto good = [&](fe::error_t status) {
    if (status.is_bad()) reason = status.get_message();
    return status.is_good();
  };
  try {
    if (good(graph->validate()) && good(graph->build_operation_graph(handle)) &&
        good(graph->create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}))) {
      deselect(*graph, p.dtype);
      if (good(graph->check_support())) {
        for (int64_t i = 0; i < graph->get_execution_plan_count() && states.size() < most; ++i) {
          int64_t bytes = 0;
          if (!good(graph->build_plan_at_index(i)) ||
              !good(graph->get_workspace_size_plan_at_index(i, bytes)))
            continue;
          auto state = std::make_shared<CudnnState>();
          state->graph = graph;
          state->plan = i;
          state->bias_in_graph = bias;
          state->workspace_bytes = static_cast<size_t>(bytes);
          states.push_back(std::move(state));
        }
      }
    }
  } catch (const fe::cudnnException& e) {
    reason = e.what();
  }
  return "cuDNN has no plan: " + reason.substr(0, reason.find('\n'));
}

void execute(const char* op, const CudnnState& state, const Call& call, std::span<void*> pointers,
             void* workspace) {
  auto status =
      state.graph->execute_plan_at_index(call.encoder->cudnn(), pointers.data(),
                                         static_cast<int>(pointers.size()), workspace, state.plan);
  if (status.is_bad()) fail<DeviceError>("{}: cuDNN: {}", op, status.get_message());
}

void run(const Conv2dParams&, const CudnnState& state, const Call& call) {
  const Arg& bias = call.in[2];
  if (state.bias_in_graph) {
    void* pointers[] = {call.in[0].data, call.in[1].data, bias.data, call.out[0].data};
    execute("conv2d", state, call, pointers, call.workspace);
    return;
  }
  void* pointers[] = {call.in[0].data, call.in[1].data, call.out[0].data};
  execute("conv2d", state, call, pointers, call.workspace);
  if (bias.defined()) add_channel_bias(*call.encoder, call.out[0], bias);
}

void run_gradient(const Conv2dGradParams&, const CudnnState& state, const Call& call) {
  auto* workspace = static_cast<std::byte*>(call.workspace);
  const bool copies = state.weight_bytes > 0;
  void* pointers[] = {call.in[0].data, call.in[1].data, copies ? workspace : call.out[0].data};
  execute("conv2d gradient", state, call, pointers,
          copies ? workspace + state.weight_bytes : workspace);
  if (copies) weight_to_row_major(*call.encoder, workspace, call.out[0]);
}

/// Times the plans and our own kernel.
Plan fastest(const ConvProblem& p, const States& states) {
  Plan best{states[0], {}};
  const auto tell = [&](const std::string& name, double time) {
    if (verbose_dispatch())
      fmt::print(stderr, "mica: {}: {} takes {:.1f} µs\n", p.op(), name, time);
  };
  try {
    const ConvTrial trial(p);
    double least = std::numeric_limits<double>::infinity();
    for (const auto& state : states) {
      const double time = trial.microseconds(
          state->workspace_bytes,
          [&](const Call& call) {
            if (p.pass == ConvPass::forward) {
              run({}, *state, call);
            } else {
              run_gradient({}, *state, call);
            }
          },
          least);
      std::string name;
      if (state->graph->get_plan_name_at_index(state->plan, name).is_bad()) name = "a plan";
      tell("cudnn's " + name + (state->bias_in_graph ? " with the bias" : ""), time);
      if (time >= least) continue;
      least = time;
      best.state = state;
    }
    const double direct = trial.direct_microseconds(least);
    tell("direct", direct);
    best.direct_is_faster = direct < least;
  } catch (const OutOfMemory&) {
    // No room to time in: the heuristic's choice stands.
  }
  return best;
}

Plan build_plan(const ConvProblem& p) {
  const bool timed = autotune() && !deterministic();
  const size_t most = timed ? kMostTimed : 1;
  States states;
  std::string reason;
  // With the bias in the graph f16 and bf16 save a pass; for f32 there are few such engines, which
  // only timing finds worth it.
  if (p.bias && (timed || p.dtype != DType::f32)) add_plans(states, p, true, (most + 1) / 2);
  if (timed || states.empty()) reason = add_plans(states, p, false, most);
  if (states.empty()) return {nullptr, reason};
  const Shape weight = p.weight();
  if (p.pass == ConvPass::wgrad && p.channels_last && weight[1] > 1 && weight[2] * weight[3] > 1) {
    const size_t bytes = static_cast<size_t>(numel(weight)) * size_of(p.dtype);
    for (const auto& state : states) {
      state->weight_bytes =
          (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
      state->workspace_bytes += state->weight_bytes;
    }
  }
  return timed ? fastest(p, states) : Plan{states[0], {}};
}

/// `supports` has to build a plan to know that there is one; `prepare` finds it here.
Plan find_plan(const ConvProblem& p) {
  struct Cache {
    std::mutex mutex;
    std::unordered_map<std::string, Plan> plans;
  };
  // Never destroyed: at exit the library may be gone before the plans.
  static auto* cache = new Cache;
  const std::string key = key_of(p);
  const std::lock_guard lock(cache->mutex);
  if (const auto it = cache->plans.find(key); it != cache->plans.end()) return it->second;
  if (cache->plans.size() >= kMostPlans) cache->plans.clear();
  return cache->plans.emplace(key, build_plan(p)).first->second;
}

ConvProblem problem_of(const Conv2dParams& params, const Specs& specs) {
  const TensorSpec& x = specs.in[0];
  const TensorSpec& out = specs.out[0];
  return {ConvPass::forward,
          conv2d_geometry("conv2d", params, x.shape, specs.in[1].shape),
          out.dtype,
          out.device.index,
          out.is_channels_last() || (x.is_channels_last() && out.is_channels_last_dense()),
          specs.in[2].defined};
}

ConvProblem dgrad_problem_of(const Conv2dGradParams& params, const Specs& specs) {
  const TensorSpec& dy = specs.in[0];
  const TensorSpec& out = specs.out[0];
  return {ConvPass::dgrad,
          conv2d_geometry("conv2d_dgrad", params.conv, params.shape, specs.in[1].shape),
          out.dtype,
          out.device.index,
          out.is_channels_last() || (dy.is_channels_last() && out.is_channels_last_dense()),
          false};
}

ConvProblem wgrad_problem_of(const Conv2dGradParams& params, const Specs& specs) {
  const TensorSpec& dy = specs.in[0];
  const TensorSpec& x = specs.in[1];
  return {ConvPass::wgrad,
          conv2d_geometry("conv2d_wgrad", params.conv, x.shape, params.shape),
          dy.dtype,
          dy.device.index,
          x.is_channels_last() || (x.is_channels_last_dense() && dy.is_channels_last()),
          false};
}

template <auto problem, class P>
Support supports(const P& params, const Specs& specs) {
  const TensorSpec& out = specs.out[0];
  if (out.dtype == DType::f64) return Support::no("f64 is left to the direct kernel");
  if (out.numel() == 0 || specs.in[0].numel() == 0 || specs.in[1].numel() == 0)
    return Support::no("a tensor is empty");
  const ConvProblem p = problem(params, specs);
  const auto has_layout = [&](const TensorSpec& s) {
    return p.channels_last ? s.is_channels_last_dense() : s.is_contiguous();
  };
  for (const TensorSpec& s : specs.in)
    if (s.defined && !s.aligned && (s.rank() == 1 || has_layout(s)))
      return Support::no("an input does not lie on a 16-byte boundary");
  if (!out.aligned) return Support::no("the output does not lie on a 16-byte boundary");
  if (p.pass == ConvPass::wgrad ? !out.is_contiguous() : !has_layout(out))
    return Support::no("the output is neither row-major nor channels_last");
  const Plan plan = find_plan(p);
  if (!plan.state) return Support::no(plan.reason);
  Support support = plan.direct_is_faster ? Support::possible() : Support::yes();
  (p.channels_last ? support.channels_last : support.contiguous) = 0b11;
  if (p.bias) support.contiguous |= 0b100;
  return support;
}

template <auto problem, class P>
std::shared_ptr<CudnnState> prepare(const P& params, const Specs& specs) {
  const Plan plan = find_plan(problem(params, specs));
  check<Unsupported>(plan.state != nullptr, "conv2d: {}", plan.reason);
  // A plan from the cache may come to a stream that has no handle yet, and `run` must not make one.
  runtime(DeviceKind::cuda).encoder(specs.out[0].device.index)->cudnn();
  return plan.state;
}

}  // namespace

KernelList conv2d_cuda_kernels() {
  return {
      kernel<supports<problem_of, Conv2dParams>, prepare<problem_of, Conv2dParams>, run>("cudnn"),
      conv2d_direct_kernel()};
}

KernelList conv2d_dgrad_cuda_kernels() {
  return {kernel<supports<dgrad_problem_of, Conv2dGradParams>,
                 prepare<dgrad_problem_of, Conv2dGradParams>, run_gradient>("cudnn"),
          conv2d_dgrad_direct_kernel()};
}

KernelList conv2d_wgrad_cuda_kernels() {
  return {kernel<supports<wgrad_problem_of, Conv2dGradParams>,
                 prepare<wgrad_problem_of, Conv2dGradParams>, run_gradient>("cudnn"),
          conv2d_wgrad_direct_kernel()};
}

}  // namespace mica
