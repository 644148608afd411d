#pragma once

#include <concepts>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mica/core/tensor.h"

namespace mica::nn {

class ModuleImpl;

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
/// Parameters and buffers by dotted name, as in PyTorch: "0.weight".
using StateDict = std::map<std::string, Tensor>;

/// A shared handle to a layer or a network. Copies of the handle are the same module.
class Module {
 public:
  explicit Module(std::shared_ptr<ModuleImpl> impl);

  Tensor operator()(const Tensor& x) const;

  /// The module's own parameters, then its children's, in the order they were registered. A
  /// parameter that two modules share comes once.
  NamedTensors named_parameters() const;
  Tensors parameters() const;
  /// Tensors that belong to the state but are not trained: running statistics.
  NamedTensors named_buffers() const;

  /// Switches layers that behave otherwise in training (dropout, batch norm).
  void train(bool on = true) const;
  void eval() const { train(false); }
  bool training() const;

  /// Moves parameters, their gradients and buffers to a device. Every handle to them stays valid,
  /// and a function compiled before is captured again; an optimizer has to be made anew.
  void to(Device device) const;

  /// Frozen parameters require no gradient, and optimizers leave them alone.
  void freeze() const { set_requires_grad(false); }
  void unfreeze() const { set_requires_grad(true); }
  void set_requires_grad(bool value) const;
  /// Makes all gradients undefined.
  void zero_grad() const;

  /// Handles to the state itself, without history: clone() what is to be kept.
  StateDict state_dict() const;
  /// Copies values into the module's own tensors. A missing, unknown or misshapen entry raises, and
  /// then nothing was changed.
  void load_state_dict(const StateDict& state) const;

  const std::shared_ptr<ModuleImpl>& impl() const { return impl_; }

 private:
  std::shared_ptr<ModuleImpl> impl_;
};

/// What a module is made of. One's own derives from it and registers its members as it names them:
///
///     struct NetImpl : nn::ModuleImpl {
///       nn::Conv2d conv = add("conv", nn::Conv2d({.in = 1, .out = 20, .kernel = 5}));
///       nn::Linear fc = add("fc", nn::Linear(20 * 24 * 24, 10));
///       Tensor forward(const Tensor& x) override { return fc(flatten(relu(conv(x)), 1)); }
///     };
///     using Net = nn::Handle<NetImpl>;
class ModuleImpl {
 public:
  ModuleImpl() = default;
  ModuleImpl(const ModuleImpl&) = delete;
  ModuleImpl& operator=(const ModuleImpl&) = delete;
  virtual ~ModuleImpl() = default;

  virtual Tensor forward(const Tensor& x) = 0;

  // Names are not empty, hold no dot and are used once.
  void register_module(const std::string& name, const Module& module);
  /// From here on the tensor requires a gradient; it must be a floating leaf.
  void register_parameter(const std::string& name, const Tensor& value);
  void register_buffer(const std::string& name, const Tensor& value);
  /// Takes a child, parameter or buffer out, so that its name can be used again.
  void unregister(const std::string& name);

  const std::vector<std::pair<std::string, Module>>& children() const { return children_; }
  const NamedTensors& own_parameters() const { return parameters_; }
  const NamedTensors& own_buffers() const { return buffers_; }

  /// A compiled function that asked is captured again when the answer changes.
  bool training() const;
  /// Of this module alone; Module::train reaches the children too.
  void set_training(bool on) { *training_ = on; }

 protected:
  template <std::derived_from<Module> M>
  M add(const std::string& name, M module) {
    register_module(name, module);
    return module;
  }
  Tensor parameter(const std::string& name, Tensor value) {
    register_parameter(name, value);
    return value;
  }
  Tensor buffer(const std::string& name, Tensor value) {
    register_buffer(name, value);
    return value;
  }

 private:
  void check_name(const std::string& name) const;

  std::vector<std::pair<std::string, Module>> children_;
  NamedTensors parameters_;
  NamedTensors buffers_;
  std::shared_ptr<bool> training_ = std::make_shared<bool>(true);
};

/// A module handle that knows its implementation: `net->conv`.
template <std::derived_from<ModuleImpl> Impl>
class Handle : public Module {
 public:
  template <class... Args>
    requires std::constructible_from<Impl, Args...>
  explicit Handle(Args&&... args) : Module(std::make_shared<Impl>(std::forward<Args>(args)...)) {}

  Impl* operator->() const { return static_cast<Impl*>(impl().get()); }
};

}  // namespace mica::nn
