#include "mica/inference/engine.h"

#include <algorithm>
#include <new>
#include <unordered_map>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/graph/compile.h"
#include "mica/graph/plan.h"
#include "mica/inference/engine_file.h"
#include "mica/inference/network.h"
#include "mica/nn/eval_mode.h"
#include "mica/op/autocast.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/known_number.h"
#include "mica/ops/fill/fill.h"

namespace mica::inference {
namespace {

/// What holds while an engine computes: no gradients, and no autocast of whoever calls it.
struct Quiet {
  NoGrad no_grad;
  Autocast off{AutocastMode{}};
};

Tensors detached(std::span<const Tensor> tensors) {
  Tensors all;
  for (const Tensor& t : tensors) all.push_back(t.detach());
  return all;
}

/// Names of a module's parameters and buffers by their memory.
std::function<std::string(const Tensor&)> names_in(const nn::Module& module) {
  std::unordered_map<const Storage*, std::string> names;
  for (const auto& [name, tensor] : module.named_parameters())
    names.emplace(tensor.storage().get(), name);
  for (const auto& [name, tensor] : module.named_buffers())
    names.emplace(tensor.storage().get(), name);
  return [names = std::move(names)](const Tensor& t) {
    const auto at = names.find(t.storage().get());
    return at == names.end() ? std::string() : at->second;
  };
}

/// The network as autocast computes it, with inputs and results of the dtypes they had.
Network in_low_precision(const Network& network, DType low, const Values& example) {
  TraceOptions options{.output_names = network.output_names};
  for (const Network::Input& input : network.inputs) {
    options.input_names.push_back(input.name);
    for (size_t axis = 0; axis < input.shape.size(); ++axis)
      for (size_t s = 0; s < network.symbols.size(); ++s)
        if (input.shape[axis] == Size::symbol(s, network.symbols.size()))
          options.dynamic.push_back({input.name, static_cast<int>(axis), network.symbols[s]});
  }
  std::unordered_map<const Storage*, std::string> names;
  for (const Network::Constant& c : network.constants)
    names.emplace(c.tensor.storage().get(), c.name);
  options.name_of = [&](const Tensor& t) {
    const auto at = names.find(t.storage().get());
    return at == names.end() ? std::string() : at->second;
  };
  const auto compute = [&](const Values& in) {
    const Tensors given = flatten(in);
    Tensors results;
    {
      const Autocast on(given[0].device().kind, low);
      results = network.run(given);
    }
    // A second run, of which nothing is kept, says which dtypes the results have.
    const Tensors plain = network.run(given);
    for (size_t i = 0; i < results.size(); ++i) results[i] = cast(results[i], plain[i].dtype());
    return unflatten(network.output_form, results);
  };
  return trace(compute, example, options);
}

}  // namespace

struct Engine::State {
  State(Network n, Device d, std::vector<Profile> p)
      : network(std::move(n)),
        device(d),
        profiles(std::move(p)),
        compiled(TensorFunction([this](std::span<const Tensor> in) { return network.run(in); })) {
    for (Network::Constant& c : network.constants)
      c.tensor = elementwise::with_known_number(c.tensor);
  }

  Network network;
  Device device;
  std::vector<Profile> profiles;
  CompiledFunction compiled;

  /// Inputs of zeros for a profile.
  Tensors example(const Profile& profile) const {
    SymbolValues sizes;
    for (const std::string& symbol : network.symbols) {
      const auto at = profile.find(symbol);
      check(at != profile.end() && at->second >= 1,
            "inference: a profile gives '{}' no size of at least 1", symbol);
      sizes.push_back(at->second);
    }
    for (const auto& [symbol, size] : profile)
      check(std::ranges::find(network.symbols, symbol) != network.symbols.end(),
            "inference: a profile gives '{}' the size {}, but no axis is called so", symbol, size);
    Tensors inputs;
    for (const Network::Input& input : network.inputs) {
      Shape shape;
      for (const Size& size : input.shape) shape.push_back(size.at(sizes));
      inputs.push_back(zeros(shape, {input.dtype, device}));
    }
    return inputs;
  }

  void check_devices(std::span<const Tensor> inputs) const {
    for (size_t i = 0; i < inputs.size(); ++i)
      check<DeviceError>(inputs[i].device() == device,
                         "inference: input '{}' is on {}, the engine on {}", network.inputs[i].name,
                         inputs[i].device(), device);
  }
};

Engine::Engine(Network network, Device device, std::vector<Profile> profiles)
    : state_(std::make_shared<State>(network.on(device), device, std::move(profiles))) {
  if (state_->profiles.empty() && state_->network.symbols.empty()) state_->profiles = {{}};
  const Quiet quiet;
  for (const Profile& profile : state_->profiles) {
    const Tensors example = state_->example(profile);
    state_->network.symbols_of(example);  // raises where they are not the network's
    if (device.is_cpu()) {
      state_->compiled.prepare(example);
    } else {
      run(example);  // a GPU's libraries load what a network needs when it first runs
    }
  }
}

Tensors Engine::run(std::span<const Tensor> inputs) const {
  State& state = *state_;
  state.network.symbols_of(inputs);  // raises where they are not the network's
  state.check_devices(inputs);
  const Quiet quiet;
  return state.compiled(detached(inputs));
}

Tensor Engine::operator()(const Tensor& x) const {
  Tensors results = run({&x, 1});
  check(results.size() == 1, "inference: the engine gives {} results, not one; call it with Values",
        results.size());
  return std::move(results[0]);
}

Values Engine::operator()(const Values& inputs) const {
  return unflatten(state_->network.output_form, run(flatten(inputs)));
}

void Engine::save(const std::string& path) const {
  save_engine(path, {state_->network, state_->profiles});
}

const Network& Engine::network() const { return state_->network; }
Device Engine::device() const { return state_->device; }
const std::vector<Profile>& Engine::profiles() const { return state_->profiles; }
std::vector<std::string> Engine::kernels() const {
  const Plan* plan = state_->compiled.plan();
  return plan ? plan->kernels() : std::vector<std::string>();
}
std::string Engine::svg() const {
  const Plan* plan = state_->compiled.plan();
  check(plan != nullptr,
        "inference: an engine without profiles has a picture after its first call");
  return plan->graph().svg();
}
int Engine::plans() const { return state_->compiled.captures(); }

struct Binding::State {
  Tensors inputs;
  Tensors outputs;
  std::unique_ptr<Plan> plan;
};

Binding Engine::bind(const Tensors& inputs, const Tensors& outputs) const {
  const State& state = *state_;
  state.network.symbols_of(inputs);
  state.check_devices(inputs);
  const Quiet quiet;
  auto bound = std::make_shared<Binding::State>();
  bound->inputs = detached(inputs);
  bound->outputs = outputs.empty() ? run(inputs) : detached(outputs);
  check(bound->outputs.size() == state.network.outputs.size(),
        "inference: expected {} outputs to bind, got {}", state.network.outputs.size(),
        outputs.size());
  std::vector<TensorSpec> specs;
  for (const Tensor& t : bound->inputs) specs.push_back(t.spec());
  Captured captured = capture(
      [&](std::span<const Tensor> in) {
        const Tensors made = state.network.run(in);
        for (size_t i = 0; i < made.size(); ++i) {
          const Tensor& to = bound->outputs[i];
          check<ShapeError>(to.shape() == made[i].shape() && to.dtype() == made[i].dtype() &&
                                to.device() == made[i].device(),
                            "inference: output '{}': expected {} to bind, got {}",
                            state.network.output_names[i], made[i].spec(), to.spec());
          copy_(to, made[i]);
        }
        return Tensors();
      },
      specs);
  // The slots become the memory that is bound.
  for (size_t i = 0; i < captured.graph.inputs.size(); ++i) {
    Value& slot = captured.graph[captured.graph.inputs[i]];
    slot.kind = Value::Kind::external;
    slot.tensor = bound->inputs[static_cast<size_t>(captured.inputs[i].argument)];
    slot.changes = true;
  }
  captured.graph.inputs.clear();
  captured.inputs.clear();
  bound->plan = std::make_unique<Plan>(std::move(captured));
  return Binding(std::move(bound));
}

void Binding::run() const { state_->plan->run({}); }
const Tensors& Binding::inputs() const { return state_->inputs; }
const Tensors& Binding::outputs() const { return state_->outputs; }
const Plan& Binding::plan() const { return *state_->plan; }

Network network_of(const nn::Module& module, const Values& example, const TraceOptions& options) {
  const nn::EvalMode eval(module);
  TraceOptions with = options;
  if (!with.name_of) with.name_of = names_in(module);
  const Quiet quiet;
  return trace([&](const Values& in) { return module(in); }, example, with);
}

namespace {

Engine engine_of(Network network, const Values& example, OptimizeOptions options) {
  const DType precision = options.precision;
  check<DTypeError>(precision == DType::f32 || precision == DType::f16 ||
                        precision == DType::bf16 || precision == DType::i8,
                    "inference: expected f32, f16, bf16 or i8 as precision, got {}", precision);
  check(precision == DType::i8 || options.calibration.empty(),
        "inference: only i8 wants batches to calibrate with");
  const Tensors leaves = flatten(example);
  const Device device = leaves[0].device();
  // The engine's weights are its own.
  for (Network::Constant& c : network.constants) c.tensor = clone(c.tensor);
  if (precision == DType::i8) {
    std::vector<Tensors> batches;
    for (const Values& batch : options.calibration) batches.push_back(flatten(batch));
    network = quantize(network, batches, options.quantize);
  }
  // Beside the tensor cores' bytes, f32 would be slow.
  const DType low = precision == DType::i8 && device.is_cuda() ? DType::f16 : precision;
  if (low == DType::f16 || low == DType::bf16) {
    const Quiet quiet;
    network = in_low_precision(network, low, example);
  }
  if (options.profiles.empty()) {
    Profile& profile = options.profiles.emplace_back();
    const SymbolValues sizes = network.symbols_of(leaves);
    for (size_t i = 0; i < sizes.size(); ++i) profile[network.symbols[i]] = sizes[i];
  }
  return Engine(std::move(network), device, std::move(options.profiles));
}

}  // namespace

Engine optimize(const nn::Module& module, const Values& example, OptimizeOptions options) {
  Network network =
      network_of(module, example, {.input_names = options.input_names, .dynamic = options.dynamic});
  return engine_of(std::move(network), example, std::move(options));
}

Engine optimize(const ValuesFunction& function, const Values& example, OptimizeOptions options,
                const std::function<std::string(const Tensor&)>& name_of) {
  Network network = [&] {
    const Quiet quiet;
    return trace(
        function, example,
        {.input_names = options.input_names, .dynamic = options.dynamic, .name_of = name_of});
  }();
  return engine_of(std::move(network), example, std::move(options));
}

Engine load(const std::string& path, Device device) {
  EngineFile file = load_engine(path);
  try {
    return Engine(std::move(file.network), device, std::move(file.profiles));
  } catch (const DeviceError&) {
    throw;  // of this machine, not of the file
  } catch (const Unsupported& e) {
    fail<Unsupported>("{}: {}", path, e.what());
  } catch (const Error& e) {
    fail<IoError>("{}: what it holds cannot be computed: {}", path, e.what());
  } catch (const std::bad_alloc&) {
    fail<IoError>("{}: what it holds takes more memory than there is", path);
  }
}

}  // namespace mica::inference
