#include "mica/onnx/run.h"

#include <algorithm>

#include "mica/core/check.h"
#include "mica/ops/copy/copy.h"

namespace mica::onnx {
namespace {

/// The same kind of error with the node in front.
template <class E, class... Others>
[[noreturn]] void rethrow_as(const std::string& text, const Error& error) {
  if (dynamic_cast<const E*>(&error)) throw E(text);
  if constexpr (sizeof...(Others) > 0) rethrow_as<Others...>(text, error);
  throw Error(text);
}
[[noreturn]] void rethrow(const std::string& node, const Error& error) {
  const std::string_view what = error.what();
  const std::string text =
      what.starts_with("onnx: ") ? std::string(what) : fmt::format("onnx: node {}: {}", node, what);
  rethrow_as<ShapeError, DTypeError, DeviceError, OutOfMemory, IoError, IndexError, Unsupported>(
      text, error);
}

std::string list_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

/// A weight as the module has it now: it may have been replaced.
Tensor current(const nn::ModuleImpl& root, const Built::Weight& weight) {
  const nn::ModuleImpl* owner = &root;
  std::shared_ptr<nn::ModuleImpl> held;
  for (const std::string& name : weight.modules) {
    const auto children = owner->children();
    const nn::Module* const child = children.find(name);
    check(child != nullptr, "onnx: the module has no part '{}' any more", name);
    held = child->impl();
    owner = held.get();
  }
  const auto members = weight.trained ? owner->own_parameters() : owner->own_buffers();
  if (weight.index < members.size() && members[weight.index].first == weight.member)
    return members[weight.index].second;
  const Tensor* const found = members.find(weight.member);
  check(found != nullptr, "onnx: the module has no '{}' any more", weight.name);
  return *found;
}

/// A known value as a result: where results are, and no constant of the model itself.
Values given_out(const Values& value, Device device) {
  return map_leaves(value, [&](const Tensor& t) {
    if (device.is_cpu()) return clone(t);
    const HostSection host;
    return to(t, device);
  });
}

}  // namespace

Run::Run(const Built& built, Device device, bool training, Cutter* cutter)
    : values_(built.begin),
      device_(device),
      training_(training),
      cutter_(cutter),
      run_graph_([this](const Program& program, const std::vector<Value>& inputs) {
        for (size_t i = 0; i < inputs.size(); ++i) set(program.inputs[i], inputs[i]);
        return (*this)(program);
      }) {}

std::vector<Value> Run::operator()(const Program& program) {
  if (cutter_ && !current_recorder()) return cutter_->run(*this, program);
  for (const Step& s : program.steps) step(s);
  return outputs_of(program);
}

std::vector<Value> Run::outputs_of(const Program& program) const {
  std::vector<Value> results;
  for (const int slot : program.outputs) results.push_back(values_[static_cast<size_t>(slot)]);
  return results;
}

void Run::step(const Step& step) {
  std::vector<Value> inputs;
  inputs.reserve(step.inputs.size());
  bool known = true;
  const Call::Setting setting{device_, training_, cutter_ != nullptr};
  for (const int slot : step.inputs) {
    inputs.push_back(slot < 0 ? Value{} : values_[static_cast<size_t>(slot)]);
    known = known && (slot < 0 || inputs.back().known);
  }
  try {
    std::vector<Value> results;
    if (step.op->control) {
      results = step.op->control(Call(step, std::move(inputs), setting, run_graph_));
    } else if (known && step.op->folds) {
      const HostSection host;
      const Call::Setting on_host{{}, training_, cutter_ != nullptr};
      for (Values& v : step.op->run(Call(step, std::move(inputs), on_host, run_graph_)))
        results.push_back({std::move(v), true});
    } else {
      Results made = step.op->run(Call(step, std::move(inputs), setting, run_graph_));
      for (Values& v : made) results.push_back({std::move(v), made.known});
    }
    for (size_t i = 0; i < step.outputs.size(); ++i) {
      if (step.outputs[i] < 0) continue;
      check<Unsupported>(i < results.size(), "its output {} is not computed", i);
      set(step.outputs[i], std::move(results[i]));
    }
  } catch (const Error& error) {
    rethrow(step.name, error);
  }
  for (const int slot : step.last_used) set(slot, {});
}

std::vector<std::string> ImportedImpl::input_names() const {
  std::vector<std::string> names;
  for (const Built::Input& input : parts_->built.inputs)
    if (input.required) names.push_back(input.name);
  return names;
}
std::vector<std::string> ImportedImpl::output_names() const { return parts_->built.outputs; }

std::string ImportedImpl::describe() const {
  return fmt::format("Imported({} -> {})", list_of(input_names()), list_of(output_names()));
}

Values ImportedImpl::call(const Values& given) { return call(given, nullptr); }

void ImportedImpl::set_weights(Run& run) const {
  for (const Built::Weight& w : parts_->built.weights) run.set(w.slot, {current(*this, w), false});
}

Values ImportedImpl::call(const Values& given, Cutter* cutter) const {
  const Built& built = parts_->built;
  std::vector<const Built::Input*> required;
  for (const Built::Input& input : built.inputs)
    if (input.required) required.push_back(&input);
  std::vector<std::pair<const Built::Input*, Values>> inputs;
  const auto is_tensor = [](const Built::Input& i) {
    return i.type.kind == TypeProto::Kind::tensor || i.type.kind == TypeProto::Kind::none;
  };
  if (given.is_dict()) {
    for (size_t k = 0; k < given.keys().size(); ++k) {
      const auto found = std::ranges::find(built.inputs, given.keys()[k], &Built::Input::name);
      check(found != built.inputs.end(), "onnx: {}: has no input '{}'; its inputs are {}",
            parts_->name, given.keys()[k], list_of(input_names()));
      inputs.emplace_back(&*found, given.entries()[k]);
    }
  } else if (given.is_list() && !(required.size() == 1 && !is_tensor(*required[0]) &&
                                  !(given.size() == 1 && !given[0].is_tensor()))) {
    const bool every = given.entries().size() > required.size();
    check(given.entries().size() <= built.inputs.size(), "onnx: {}: takes {} inputs ({}), got {}",
          parts_->name, required.size(), list_of(input_names()), given.entries().size());
    for (size_t i = 0; i < given.entries().size(); ++i)
      inputs.emplace_back(every ? &built.inputs[i] : required[i], given.entries()[i]);
  } else if (!built.inputs.empty()) {
    inputs.emplace_back(required.empty() ? built.inputs.data() : required[0], given);
  }
  for (const Built::Input* r : required)
    check(std::ranges::find(inputs, r, &decltype(inputs)::value_type::first) != inputs.end(),
          "onnx: {}: input '{}' is missing; its inputs are {}", parts_->name, r->name,
          list_of(input_names()));

  Device device;
  if (!built.weights.empty()) device = current(*this, built.weights[0]).device();
  for (const auto& [input, value] : inputs)
    if (const Tensors leaves = flatten(value); !leaves.empty()) {
      device = leaves[0].device();
      break;
    }
  Run run(built, device, training(), cutter);
  set_weights(run);
  for (auto& [input, value] : inputs) run.set(input->slot, {std::move(value), false});
  const std::vector<Value> results = run(built.program);
  std::vector<Values> outputs;
  for (const Value& r : results) outputs.push_back(r.known ? given_out(r.value, device) : r.value);
  if (outputs.size() == 1) return outputs[0];
  return Values::list(std::move(outputs));
}

}  // namespace mica::onnx
