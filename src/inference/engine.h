#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mica/inference/quantize.h"
#include "mica/inference/trace.h"
#include "mica/nn/module.h"

namespace mica {
class Plan;  // graph/plan.h
}

namespace mica::inference {

/// Sizes of dynamic axes by name.
using Profile = std::map<std::string, int64_t>;

struct OptimizeOptions {
  /// What products are computed in: f32; f16 or bf16, as under Autocast; i8, for which there are
  /// batches to calibrate with. Inputs and results keep the dtypes they have.
  DType precision = DType::f32;
  std::vector<Values> calibration = {};  ///< like the example
  QuantizeOptions quantize = {};
  std::vector<std::string> input_names = {};
  std::vector<DynamicAxis> dynamic = {};
  /// Sizes that plans are made for at once; others get theirs when they come. Without any, those of
  /// the example.
  std::vector<Profile> profiles = {};
};

class Binding;

/// A network made ready to compute results and nothing else: without its code, gradients or modes,
/// batch norms folded into weights, weights in the dtype and layout that kernels read. Any number
/// of threads may call one. Copies of the handle are one engine.
class Engine {
 public:
  /// Constants are moved to the device; plans are made for the profiles.
  explicit Engine(Network network, Device device = {}, std::vector<Profile> profiles = {});

  /// Of an engine with one input and one output.
  Tensor operator()(const Tensor& x) const;
  /// Inputs and outputs have the structure of the network's.
  Values operator()(const Values& inputs) const;
  /// The same from left to right.
  Tensors run(std::span<const Tensor> inputs) const;

  /// For computing again and again from these very inputs into these outputs, where they lie:
  /// nothing is copied but what the network itself copies. Outputs that are not given are made.
  Binding bind(const Tensors& inputs, const Tensors& outputs = {}) const;

  /// Writes the engine to a file, all or nothing, which `load` reads without the model's code.
  void save(const std::string& path) const;

  const Network& network() const;
  Device device() const;
  const std::vector<Profile>& profiles() const;
  /// Of every step of the plan that ran last: "conv2d: onednn".
  std::vector<std::string> kernels() const;
  /// What that plan runs as a picture: every call with its kernel.
  std::string svg() const;
  /// How many plans were made.
  int plans() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

/// Inputs and outputs of an engine that stay where they are. Not for several threads at once.
class Binding {
 public:
  /// Reads the inputs, computes, writes the outputs.
  void run() const;
  const Tensors& inputs() const;
  const Tensors& outputs() const;
  /// What runs.
  const Plan& plan() const;

 private:
  friend class Engine;
  struct State;
  explicit Binding(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

/// An engine of a module in evaluation mode, for arguments like the example. The module itself
/// stays as it is, and what becomes of its weights afterwards does not touch the engine.
Engine optimize(const nn::Module& module, const Values& example, OptimizeOptions options = {});
/// Of any function of tensors; `name_of` names the tensors that it reads.
Engine optimize(const ValuesFunction& function, const Values& example, OptimizeOptions options = {},
                const std::function<std::string(const Tensor&)>& name_of = {});

/// What optimize makes an engine of.
Network network_of(const nn::Module& module, const Values& example, const TraceOptions& options);

/// Reads what Engine::save wrote; kernels are chosen for this device and library. Whatever is wrong
/// with a file raises IoError with its name; an operator that this library has not, Unsupported.
Engine load(const std::string& path, Device device = {});

}  // namespace mica::inference
