#include "mica/nn/module.h"

#include <algorithm>
#include <set>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/op/dispatch.h"
#include "mica/ops/copy/copy.h"

namespace mica::nn {
namespace {

/// Calls `f(prefix, impl)` for a module and everything below it, parents first.
template <class F>
void walk(const Module& module, const std::string& prefix, F&& f) {
  f(prefix, *module.impl());
  for (const auto& [name, child] : module.impl()->children()) walk(child, prefix + name + ".", f);
}

NamedTensors collect(const Module& module, const NamedTensors& (ModuleImpl::*own)() const) {
  NamedTensors all;
  std::set<const TensorImpl*> seen;
  walk(module, "", [&](const std::string& prefix, const ModuleImpl& impl) {
    for (const auto& [name, tensor] : (impl.*own)())
      if (seen.insert(tensor.impl()).second) all.emplace_back(prefix + name, tensor);
  });
  return all;
}

/// Gives a tensor other memory; every handle to it sees that.
void replace_memory(const Tensor& tensor, const Tensor& with) {
  TensorImpl& impl = *tensor.impl();
  impl.spec = with.spec();
  impl.offset = with.offset();
  impl.storage = with.storage();
}

}  // namespace

Module::Module(std::shared_ptr<ModuleImpl> impl) : impl_(std::move(impl)) {
  check(impl_ != nullptr, "nn::Module: expected a module, got a null pointer");
}

Tensor Module::operator()(const Tensor& x) const { return impl_->forward(x); }

NamedTensors Module::named_parameters() const {
  return collect(*this, &ModuleImpl::own_parameters);
}

Tensors Module::parameters() const {
  Tensors all;
  for (auto& [name, tensor] : named_parameters()) all.push_back(tensor);
  return all;
}

NamedTensors Module::named_buffers() const { return collect(*this, &ModuleImpl::own_buffers); }

void Module::train(bool on) const {
  walk(*this, "", [&](const std::string&, ModuleImpl& impl) { impl.set_training(on); });
}

bool Module::training() const { return impl_->training(); }

bool ModuleImpl::training() const {
  if (Recorder* recorder = current_recorder()) recorder->depends_on(training_);
  return *training_;
}

void Module::to(Device device) const {
  const NoGrad guard;
  for (const auto& [name, tensor] : named_parameters()) {
    const Tensor grad = tensor.grad();
    replace_memory(tensor, mica::to(tensor, device));
    if (grad.defined()) tensor.set_grad(mica::to(grad, device));
  }
  for (const auto& [name, tensor] : named_buffers())
    replace_memory(tensor, mica::to(tensor, device));
}

void Module::set_requires_grad(bool value) const {
  for (const Tensor& p : parameters()) p.set_requires_grad(value);
}

void Module::zero_grad() const {
  for (const Tensor& p : parameters()) p.set_grad({});
}

StateDict Module::state_dict() const {
  StateDict state;
  walk(*this, "", [&](const std::string& prefix, const ModuleImpl& impl) {
    for (const auto& [name, tensor] : impl.own_parameters())
      state.emplace(prefix + name, tensor.detach());
    for (const auto& [name, tensor] : impl.own_buffers())
      state.emplace(prefix + name, tensor.detach());
  });
  return state;
}

void Module::load_state_dict(const StateDict& state) const {
  const StateDict own = state_dict();
  for (const auto& [name, value] : state) {
    const auto it = own.find(name);
    check(it != own.end(), "load_state_dict: unexpected '{}'; the module has no such entry", name);
    check(value.defined(), "load_state_dict: '{}' is undefined", name);
    const Tensor& mine = it->second;
    check<ShapeError>(value.shape() == mine.shape(),
                      "load_state_dict: '{}' must have shape {}, got {}", name, mine.shape(),
                      value.shape());
    check<DTypeError>(value.dtype() == mine.dtype(), "load_state_dict: '{}' must be {}, got {}",
                      name, mine.dtype(), value.dtype());
  }
  for (const auto& [name, mine] : own)
    check(state.contains(name), "load_state_dict: '{}' {}{} is missing", name, mine.dtype(),
          mine.shape());
  const NoGrad guard;
  for (const auto& [name, value] : state) copy_(own.at(name), value);
}

void ModuleImpl::check_name(const std::string& name) const {
  check(!name.empty() && name.find('.') == std::string::npos,
        "nn::Module: a member's name must not be empty or hold a dot, got '{}'", name);
  const auto is_it = [&](const auto& member) { return member.first == name; };
  const bool taken = std::any_of(children_.begin(), children_.end(), is_it) ||
                     std::any_of(parameters_.begin(), parameters_.end(), is_it) ||
                     std::any_of(buffers_.begin(), buffers_.end(), is_it);
  check(!taken, "nn::Module: a member named '{}' is registered already", name);
}

void ModuleImpl::register_module(const std::string& name, const Module& module) {
  check_name(name);
  walk(module, "", [&](const std::string&, const ModuleImpl& impl) {
    check(&impl != this, "nn::Module: '{}' would make a module a part of itself", name);
  });
  children_.emplace_back(name, module);
}

void ModuleImpl::register_parameter(const std::string& name, const Tensor& value) {
  check_name(name);
  check(value.defined(), "nn::Module: the parameter '{}' is undefined", name);
  value.set_requires_grad(true);
  parameters_.emplace_back(name, value);
}

void ModuleImpl::register_buffer(const std::string& name, const Tensor& value) {
  check_name(name);
  check(value.defined(), "nn::Module: the buffer '{}' is undefined", name);
  buffers_.emplace_back(name, value);
}

void ModuleImpl::unregister(const std::string& name) {
  const auto is_it = [&](const auto& member) { return member.first == name; };
  std::erase_if(children_, is_it);
  std::erase_if(parameters_, is_it);
  std::erase_if(buffers_, is_it);
}

}  // namespace mica::nn
