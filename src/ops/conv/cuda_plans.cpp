// Convolutions of two and three axes as graphs of cuDNN. This file and attention's alone include
// cudnn-frontend, which is slow to compile.
#include "mica/ops/conv/cuda_plans.h"

#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include <cstdlib>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "mica/core/check.h"
#include "mica/op/settings.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

namespace fe = cudnn_frontend;
using TensorPtr = std::shared_ptr<fe::graph::Tensor_attributes>;

fe::DataType_t data_type(DType t) {
  if (t == DType::f16) return fe::DataType_t::HALF;
  if (t == DType::i8) return fe::DataType_t::INT8;
  return t == DType::bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::FLOAT;
}

std::vector<int64_t> to_vector(const Dims& dims) { return {dims.begin(), dims.end()}; }

/// Tensors are passed to the graph in the order of their numbers.
enum Uid : int64_t {
  kFirst = 1,
  kSecond,
  kScale,
  kBias,
  kResidual,
  kResidualScale,
  kFactor,
  kOutput
};

void describe(fe::graph::Tensor_attributes& tensor, Uid uid, const ConvProblem& p,
              const Shape& shape, DType dtype) {
  tensor.set_uid(uid)
      .set_data_type(data_type(dtype))
      .set_dim(to_vector(shape))
      .set_stride(to_vector(p.strides(shape)));
}

TensorPtr add_input(fe::graph::Graph& graph, Uid uid, const ConvProblem& p, const Shape& shape,
                    DType dtype) {
  fe::graph::Tensor_attributes tensor;
  describe(tensor, uid, p, shape, dtype);
  return graph.tensor(tensor);
}
TensorPtr add_input(fe::graph::Graph& graph, Uid uid, const ConvProblem& p, const Shape& shape) {
  return add_input(graph, uid, p, shape, p.dtype);
}

template <class Attributes>
Attributes conv_attributes(const ConvProblem& p) {
  Attributes a;
  a.set_padding(to_vector(p.padding))
      .set_stride(to_vector(p.stride))
      .set_dilation(to_vector(p.dilation));
  return a;
}

fe::graph::Pointwise_attributes pointwise(fe::PointwiseMode_t mode) {
  fe::graph::Pointwise_attributes a;
  a.set_mode(mode);
  return a;
}

TensorPtr add_activation(fe::graph::Graph& graph, Activation activation, TensorPtr y) {
  using Mode = fe::PointwiseMode_t;
  switch (activation) {
    case Activation::none:
      return y;
    case Activation::relu:
      return graph.pointwise(y, pointwise(Mode::RELU_FWD));
    case Activation::gelu:
      return graph.pointwise(y, pointwise(Mode::GELU_FWD));
    case Activation::gelu_tanh:
      return graph.pointwise(y, pointwise(Mode::GELU_APPROX_TANH_FWD));
    case Activation::silu:
      return graph.pointwise(y, pointwise(Mode::SWISH_FWD));
    case Activation::tanh:
      return graph.pointwise(y, pointwise(Mode::TANH_FWD));
    case Activation::sigmoid:
      return graph.pointwise(y, pointwise(Mode::SIGMOID_FWD));
    case Activation::hardswish: {
      const TensorPtr shifted = graph.pointwise(y, graph.tensor(3.0F), pointwise(Mode::ADD));
      const TensorPtr gate = graph.pointwise(
          shifted, pointwise(Mode::RELU_FWD).set_relu_lower_clip(0).set_relu_upper_clip(6));
      const TensorPtr scaled = graph.pointwise(gate, graph.tensor(1 / 6.0F), pointwise(Mode::MUL));
      return graph.pointwise(y, scaled, pointwise(Mode::MUL));
    }
  }
  return y;
}

/// What comes after a convolution. The residual first where it is not asked for otherwise: the
/// library has kernels built beforehand for that order.
TensorPtr add_epilogue(fe::graph::Graph& graph, const ConvProblem& p, bool bias, TensorPtr y) {
  using Mode = fe::PointwiseMode_t;
  const DType wide = p.has_bytes() ? DType::f32 : p.dtype;
  const Shape number = Dims::filled(p.y.rank(), 1);
  Shape by_channel = number;
  by_channel[1] = p.y[1];
  const auto join = [&](Mode mode, TensorPtr from, Uid uid, const Shape& shape, DType dtype) {
    return graph.pointwise(from, add_input(graph, uid, p, shape, dtype), pointwise(mode));
  };
  const auto add_residual = [&] {
    if (p.residual && p.scaled_residual) {
      const TensorPtr residual =
          join(Mode::MUL, add_input(graph, kResidual, p, p.y), kResidualScale, number, wide);
      y = graph.pointwise(y, residual, pointwise(Mode::ADD));
    } else if (p.residual) {
      y = join(Mode::ADD, y, kResidual, p.y, wide);
    }
  };
  if (p.has_bytes()) y = join(Mode::MUL, y, kScale, by_channel, wide);
  if (!p.bias_first) add_residual();
  if (bias) y = join(Mode::ADD, y, kBias, by_channel, wide);
  if (p.bias_first) add_residual();
  y = add_activation(graph, p.activation, y);
  if (p.has_bytes() && p.out == DType::i8) y = join(Mode::MUL, y, kFactor, number, wide);
  return y;
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
      out_shape = p.y;
      const TensorPtr x = add_input(*graph, kFirst, p, p.x);
      const TensorPtr weight = add_input(*graph, kSecond, p, p.weight);
      auto attributes = conv_attributes<fe::graph::Conv_fprop_attributes>(p);
      if (p.has_bytes()) attributes.set_compute_data_type(fe::DataType_t::INT32);
      out = graph->conv_fprop(x, weight, attributes);
      if (p.has_bytes()) out->set_data_type(fe::DataType_t::INT32);
      out = add_epilogue(*graph, p, bias, out);
      break;
    }
    case ConvPass::dgrad: {
      out_shape = p.x;
      const TensorPtr dy = add_input(*graph, kFirst, p, p.y);
      const TensorPtr weight = add_input(*graph, kSecond, p, p.weight);
      out = graph->conv_dgrad(dy, weight, conv_attributes<fe::graph::Conv_dgrad_attributes>(p));
      break;
    }
    case ConvPass::wgrad: {
      out_shape = p.weight;
      const TensorPtr dy = add_input(*graph, kFirst, p, p.y);
      const TensorPtr x = add_input(*graph, kSecond, p, p.x);
      out = graph->conv_wgrad(dy, x, conv_attributes<fe::graph::Conv_wgrad_attributes>(p));
      break;
    }
  }
  describe(*out, kOutput, p, out_shape, p.has_bytes() ? p.out : p.dtype);
  out->set_output(true);
  return graph;
}

/// Leaves out the plans that compute otherwise than the settings allow.
void deselect(fe::graph::Graph& graph, DType dtype) {
  using Note = fe::NumericalNote_t;
  std::vector<Note> notes;
  if (dtype == DType::f32) notes.push_back(Note::DOWN_CONVERT_INPUTS);
  if (!allow_tf32()) {
    notes.push_back(Note::REDUCED_PRECISION_REDUCTION);
    // On f32 data tensor cores mean TF32.
    if (dtype == DType::f32) notes.push_back(Note::TENSOR_CORE);
  }
  if (deterministic()) notes.push_back(Note::NONDETERMINISTIC);
  graph.deselect_numeric_notes(notes);
  graph.deselect_workspace_greater_than(conv_workspace_limit());
}

/// Whether the channels of an image are whole vectors of 16 bytes. The library's heuristic looks at
/// that; its fallback is a list of all engines that accept a problem, some of which do not: engine
/// 71 of cuDNN 9.19 reads misaligned addresses in a forward convolution of an odd number of groups
/// with two channels each. Where there are no such vectors, the fallback is for problems that the
/// heuristic has no answer to.
bool has_whole_vectors(const ConvProblem& p) {
  const int64_t vector = 16 / static_cast<int64_t>(size_of(p.dtype));
  return p.x[1] % vector == 0 && p.y[1] % vector == 0;
}

/// A plan's engine and its settings, as its name has them: "eng57_k24=0_k2=1". None where it has
/// not.
struct EngineOfPlan {
  int64_t engine = -1;
  std::unordered_map<fe::KnobType_t, int64_t> knobs;
};
std::optional<EngineOfPlan> engine_of_plan(const std::string& name) {
  EngineOfPlan found;
  const char* at = name.c_str();
  const auto take = [&](std::string_view word, int64_t& number) {
    if (!std::string_view(at).starts_with(word)) return false;
    const char* const digits = at + word.size();
    char* end = nullptr;
    number = std::strtoll(digits, &end, 10);
    at = end;
    return end != digits;
  };
  if (!take("eng", found.engine)) return std::nullopt;
  while (*at != '\0') {
    int64_t type = 0;
    int64_t choice = 0;
    if (!take("_k", type) || !take("=", choice)) return std::nullopt;
    found.knobs[fe::convert_from_backend_knob_type(static_cast<cudnnBackendKnobType_t>(type))] =
        choice;
  }
  return found;
}

class GraphPlan : public ConvPlan {
 public:
  GraphPlan(const char* op, std::shared_ptr<const fe::graph::Graph> graph, int64_t index,
            int64_t bytes)
      : op_(op), graph_(std::move(graph)), index_(index), bytes_(static_cast<size_t>(bytes)) {}

  std::string name() const override { return name_of(*graph_, index_); }
  size_t workspace_bytes() const override { return bytes_; }
  void execute(Encoder& encoder, std::span<void*> pointers, void* workspace) const override {
    const CudnnHandle cudnn = encoder.cudnn();
    auto status = graph_->execute_plan_at_index(
        cudnn.handle, pointers.data(), static_cast<int>(pointers.size()), workspace, index_);
    if (status.is_bad()) fail<DeviceError>("{}: cuDNN: {}", op_, status.get_message());
  }

  static std::string name_of(const fe::graph::Graph& graph, int64_t index) {
    std::string name;
    return graph.get_plan_name_at_index(index, name).is_good() ? name : "a plan";
  }

 private:
  const char* op_;
  std::shared_ptr<const fe::graph::Graph> graph_;
  int64_t index_;
  size_t bytes_;
};

}  // namespace

const char* ConvProblem::op() const {
  if (joined) return "anchored";
  static constexpr const char* kNames[2][3] = {{"conv2d", "conv2d_dgrad", "conv2d_wgrad"},
                                               {"conv3d", "conv3d_dgrad", "conv3d_wgrad"}};
  return kNames[x.rank() - 4][static_cast<int>(pass)];
}

std::vector<std::shared_ptr<const ConvPlan>> find_conv_plans(const ConvProblem& p, bool bias,
                                                             size_t most, const std::string& only,
                                                             std::string& reason) {
  std::vector<std::shared_ptr<const ConvPlan>> plans;
  const CudnnHandle cudnn = runtime(DeviceKind::cuda).encoder(p.device.index)->cudnn();
  std::string message;
  const auto good = [&](fe::error_t status) {
    if (status.is_bad()) message = status.get_message();
    return status.is_good();
  };
  // The heuristics take longer than all else: a plan that is known is made as its name says.
  if (const auto engine = engine_of_plan(only)) try {
      const auto graph = describe_graph(p, bias);
      int64_t bytes = 0;
      if (good(graph->validate()) && good(graph->build_operation_graph(cudnn.handle)) &&
          good(graph->create_execution_plan(engine->engine, engine->knobs))) {
        deselect(*graph, p.dtype);
        if (GraphPlan::name_of(*graph, 0) == only && good(graph->check_support()) &&
            good(graph->build_plan_at_index(0)) &&
            good(graph->get_workspace_size_plan_at_index(0, bytes)))
          return {std::make_shared<GraphPlan>(p.op(), graph, 0, bytes)};
      }
    } catch (const fe::cudnnException& e) {
      message = e.what();
    }
  for (const auto mode : {fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK}) {
    const bool enough = plans.size() >= most || (!plans.empty() && !only.empty());
    if (enough || (!plans.empty() && !has_whole_vectors(p))) break;
    try {
      const auto graph = describe_graph(p, bias);
      if (!good(graph->validate()) || !good(graph->build_operation_graph(cudnn.handle)) ||
          !good(graph->create_execution_plans({mode})))
        continue;
      deselect(*graph, p.dtype);
      const int64_t count = good(graph->check_support()) ? graph->get_execution_plan_count() : 0;
      for (int64_t i = 0; i < count && plans.size() < most; ++i) {
        int64_t bytes = 0;
        if (!only.empty() && only != GraphPlan::name_of(*graph, i)) continue;
        if (good(graph->build_plan_at_index(i)) &&
            good(graph->get_workspace_size_plan_at_index(i, bytes)))
          plans.push_back(std::make_shared<GraphPlan>(p.op(), graph, i, bytes));
      }
    } catch (const fe::cudnnException& e) {
      message = e.what();
    }
  }
  if (plans.empty()) reason = "cuDNN has no plan: " + message.substr(0, message.find('\n'));
  return plans;
}

}  // namespace mica
