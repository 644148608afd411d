// mica.nn.Module. Members that Python assigns are registered in C++, and a forward written in
// Python is called from C++, so that both sides see one tree of modules.
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>

#include <algorithm>

#include "python/src/bindings.h"
#include "python/src/module_handle.h"

namespace mica::python {
namespace {

using nn::ModuleImpl;
using ModuleClass = nb::class_<ModuleImpl, Overridable<ModuleImpl>>;

template <class Members>
auto* find_member(const Members& members, const std::string& name) {
  const auto it = std::ranges::find(members, name, [](const auto& m) { return m.first; });
  return it == members.end() ? nullptr : &it->second;
}

nb::list named(const nn::NamedTensors& tensors, bool parameters) {
  nb::list list;
  for (const auto& [name, t] : tensors) {
    list.append(nb::make_tuple(name, parameters ? nb::cast(Parameter(t)) : nb::cast(t)));
  }
  return list;
}

nb::list values(const nb::list& pairs) {
  nb::list list;
  for (const nb::handle pair : pairs) list.append(pair[1]);
  return list;
}

nb::list named_children(const ModuleImpl& impl) {
  nb::list list;
  for (const auto& [name, child] : impl.children())
    list.append(nb::make_tuple(name, module_to_python(child)));
  return list;
}

ModuleImpl& impl_of(nb::handle self) {
  check(nb::inst_ready(self),
        "nn.Module: call super().__init__() before the first member is assigned");
  return *nb::inst_ptr<ModuleImpl>(self);
}

void register_parameter(ModuleImpl& impl, const std::string& name, const Tensor& value) {
  const bool requires_grad = value.requires_grad();
  impl.register_parameter(name, value);
  value.set_requires_grad(requires_grad);
}

bool is_member(const ModuleImpl& impl, const std::string& name) {
  return find_member(impl.own_parameters(), name) || find_member(impl.children(), name) ||
         find_member(impl.own_buffers(), name);
}

/// Takes a member out so that `value` can take its place; true when the new one is to be a buffer.
bool make_room(ModuleImpl& impl, const std::string& name, nb::handle value) {
  // A layer of C++ reads its parameters by itself, and Sequential goes by the order of its
  // children.
  check<Unsupported>(
      dynamic_cast<Overridable<ModuleImpl>*>(&impl) != nullptr,
      "nn.Module: '{}' belongs to a layer made in C++ and cannot be replaced; copy values into it "
      "with copy_()",
      name);
  const bool to_buffer = find_member(impl.own_buffers(), name) && nb::isinstance<Tensor>(value);
  const bool fits =
      nb::isinstance<ModuleImpl>(value) || nb::isinstance<Parameter>(value) || value.is_none();
  if (!fits && !to_buffer) {
    raise_type_error("nn.Module: the member '{}' cannot be replaced by {}", name,
                     class_name(value));
  }
  impl.unregister(name);
  return to_buffer && !nb::isinstance<Parameter>(value);
}

/// Modules and parameters become members; a buffer that exists takes the new tensor; the rest are
/// plain attributes.
void set_attribute(nb::handle self, nb::handle key, nb::handle value) {
  const auto name = nb::cast<std::string>(key);
  if (nb::inst_ready(self) && is_member(impl_of(self), name) &&
      make_room(impl_of(self), name, value)) {
    return impl_of(self).register_buffer(name, nb::cast<Tensor>(value));
  }
  const bool is_module = nb::isinstance<ModuleImpl>(value);
  if (is_module || nb::isinstance<Parameter>(value)) {
    ModuleImpl& impl = impl_of(self);
    // self.part = None may have stood there before, and would hide the member.
    if (nb::hasattr(self, "__dict__")) self.attr("__dict__").attr("pop")(key, nb::none());
    if (is_module) return impl.register_module(name, module_from(value));
    return register_parameter(impl, name, nb::cast<Tensor>(value));
  }
  if (PyObject_GenericSetAttr(self.ptr(), key.ptr(), value.ptr()) < 0) nb::raise_python_error();
}

/// Called when there is no plain attribute of that name.
nb::object get_attribute(nb::handle self, const std::string& name) {
  if (nb::inst_ready(self)) {
    const ModuleImpl& impl = impl_of(self);
    if (const Tensor* p = find_member(impl.own_parameters(), name)) return nb::cast(Parameter(*p));
    if (const nn::Module* m = find_member(impl.children(), name)) return module_to_python(*m);
    if (const Tensor* b = find_member(impl.own_buffers(), name)) return nb::cast(*b);
  }
  throw nb::attribute_error(
      fmt::format("'{}' object has no attribute '{}'", class_name(self), name).c_str());
}

void delete_attribute(nb::handle self, nb::handle key) {
  const auto name = nb::cast<std::string>(key);
  if (nb::inst_ready(self) && is_member(impl_of(self), name)) {
    impl_of(self).unregister(name);
  } else if (PyObject_GenericSetAttr(self.ptr(), key.ptr(), nullptr) < 0) {
    nb::raise_python_error();
  }
}

/// "Linear(weight=[10, 500], bias=[10])", with children indented below.
std::string describe(const nn::Module& module, const std::string& indent = "") {
  std::string members;
  for (const auto& [name, t] : module.impl()->own_parameters()) {
    members += fmt::format("{}{}={}", members.empty() ? "" : ", ", name, t.shape());
  }
  std::string children;
  for (const auto& [name, child] : module.impl()->children()) {
    children += fmt::format("\n{}  {}: {}", indent, name, describe(child, indent + "  "));
  }
  if (!children.empty()) children += "\n" + indent;
  return fmt::format("{}({}{})", class_name(module_to_python(module)), members, children);
}

// A child may hold its parent (self.parent = parent): the collector has to see the C++ side's
// references. A handle that other C++ code shares is not the parent's alone, so it is left out.
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  for (const auto& [name, child] : nb::inst_ptr<ModuleImpl>(self)->children()) {
    const auto* owner = std::get_deleter<PythonOwner>(child.impl());
    if (owner && child.impl().use_count() == 1) Py_VISIT(owner->object);
  }
  return 0;
}

void bind_state(ModuleClass& module) {
  module.def("named_parameters",
             [](nb::handle self) { return named(module_from(self).named_parameters(), true); });
  module.def("parameters", [](nb::handle self) {
    return values(named(module_from(self).named_parameters(), true));
  });
  module.def("named_buffers",
             [](nb::handle self) { return named(module_from(self).named_buffers(), false); });
  module.def("buffers", [](nb::handle self) {
    return values(named(module_from(self).named_buffers(), false));
  });
  module.def("named_children", named_children);
  module.def("children", [](const ModuleImpl& impl) { return values(named_children(impl)); });
  module.def(
      "state_dict", [](nb::handle self) { return module_from(self).state_dict(); },
      "Parameters and buffers by dotted name; they share the module's memory.");
  module.def(
      "load_state_dict",
      [](nb::handle self, const nn::StateDict& state) {
        const nn::Module m = module_from(self);
        without_gil([&] { m.load_state_dict(state); });
      },
      "state_dict"_a,
      "Copies values in. A missing, unknown or misshapen entry raises, and then nothing was "
      "changed.");
}

void bind_registration(ModuleClass& module) {
  module.def("__setattr__", set_attribute, "name"_a, nb::arg("value").none());
  module.def("__getattr__", get_attribute);
  module.def("__delattr__", delete_attribute);
  module.def("register_parameter", register_parameter, "name"_a, "param"_a);
  module.def("register_buffer", &ModuleImpl::register_buffer, "name"_a, "tensor"_a);
  for (const char* name : {"register_module", "add_module"}) {
    module.def(
        name,
        [](ModuleImpl& impl, const std::string& child, nb::handle value) {
          impl.register_module(child, module_from(value));
        },
        "name"_a, "module"_a);
  }
}

void bind_modes(ModuleClass& module) {
  // Each returns the module itself, so that calls can be chained.
  const auto move = [](nb::handle self, Device device) {
    const nn::Module m = module_from(self);
    without_gil([&] { m.to(device); });
    return nb::borrow(self);
  };
  module.def(
      "to", [move](nb::handle self, nb::handle device) { return move(self, parse_device(device)); },
      "device"_a, "Moves parameters, gradients and buffers; every handle to them stays valid.");
  module.def("cpu", [move](nb::handle self) { return move(self, Device::cpu()); });
  module.def(
      "cuda", [move](nb::handle self, int index) { return move(self, Device::cuda(index)); },
      "index"_a = 0);

  const auto set_training = [](nb::handle self, bool mode) {
    module_from(self).train(mode);
    return nb::borrow(self);
  };
  module.def("train", set_training, "mode"_a = true);
  module.def("eval", [set_training](nb::handle self) { return set_training(self, false); });
  module.def_prop_ro("training", &ModuleImpl::training);

  const auto set_requires_grad = [](nb::handle self, bool value) {
    module_from(self).set_requires_grad(value);
    return nb::borrow(self);
  };
  module.def("requires_grad_", set_requires_grad, "requires_grad"_a = true);
  module.def(
      "freeze", [set_requires_grad](nb::handle self) { return set_requires_grad(self, false); },
      "Frozen parameters require no gradient, and optimizers leave them alone.");
  module.def("unfreeze",
             [set_requires_grad](nb::handle self) { return set_requires_grad(self, true); });
  module.def(
      "zero_grad", [](nb::handle self) { module_from(self).zero_grad(); },
      "Makes all gradients None.");
}

}  // namespace

PyType_Slot module_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse)}, {0, nullptr}};

void PythonOwner::operator()(nn::ModuleImpl*) const noexcept {
  if (!nb::is_alive()) return;
  const nb::gil_scoped_acquire acquire;
  nb::handle(object).dec_ref();
}

nn::Module module_from(nb::handle object) {
  if (!nb::isinstance<ModuleImpl>(object))
    raise_type_error("expected an nn.Module, got {}", class_name(object));
  ModuleImpl& impl = impl_of(object);
  return nn::Module(std::shared_ptr<ModuleImpl>(&impl, PythonOwner{object.inc_ref().ptr()}));
}

nb::object module_to_python(const nn::Module& module) {
  if (const auto* owner = std::get_deleter<PythonOwner>(module.impl()))
    return nb::borrow(owner->object);
  return nb::cast(module.impl());
}

void bind_nn(nb::module_& m) {
  nb::module_ scope = add_submodule(m, "nn");
  nb::class_<Parameter, Tensor>(scope, "Parameter",
                                "A tensor that a module registers when it is assigned to it.")
      .def(
          "__init__",
          [](Parameter* self, const Tensor& data, bool requires_grad) {
            new (self) Parameter(data.detach());
            self->set_requires_grad(requires_grad);
          },
          "data"_a, "requires_grad"_a = true);

  ModuleClass module(scope, "Module", nb::type_slots(module_slots), nb::is_weak_referenceable(),
                     "Base of layers and networks. One's own calls super().__init__(), assigns its "
                     "parts and defines "
                     "forward(self, x).");
  module.def(nb::init<>());
  module.def("__call__", [](nb::handle self, const nb::args& args, const nb::kwargs& kwargs) {
    return self.attr("forward")(*args, **kwargs);
  });
  module.def("forward", &ModuleImpl::forward, "input"_a, ReleaseGil());
  module.def("__repr__", [](nb::handle self) { return describe(module_from(self)); });
  bind_state(module);
  bind_registration(module);
  bind_modes(module);
  bind_layers(scope);
}

}  // namespace mica::python
