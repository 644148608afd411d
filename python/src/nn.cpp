// mica.nn.Module. Members that Python assigns are registered in C++, and a forward written in
// Python is called from C++, so that both sides see one tree of modules.
#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>

#include <algorithm>
#include <set>

#include "python/src/bindings.h"
#include "python/src/module_handle.h"
#include "python/src/values.h"

namespace mica::python {
namespace {

using nn::ModuleImpl;

/// prefix.name, as PyTorch puts them together.
std::string below(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : name.empty() ? prefix : prefix + "." + name;
}

/// A list that next() walks through too, as PyTorch's iterators are.
nb::object listed(const nb::list& list) {
  return nb::module_::import_("mica.nn._listed").attr("Listed")(list);
}

nb::object values(const nb::list& pairs) {
  nb::list list;
  for (const nb::handle pair : pairs) list.append(pair[1]);
  return listed(list);
}

nb::list named_children(const ModuleImpl& impl) {
  nb::list list;
  for (const auto& [name, child] : impl.children())
    list.append(nb::make_tuple(name, module_to_python(child)));
  return list;
}

bool is_member(const ModuleImpl& impl, const std::string& name) {
  return impl.own_parameters().find(name) || impl.children().find(name) ||
         impl.own_buffers().find(name);
}

/// Puts a value in the place of the member of that name; false when it is to be a plain attribute.
bool replace_member(ModuleImpl& impl, const std::string& name, nb::handle value) {
  if (value.is_none()) {
    impl.unregister(name);
    return false;
  }
  const bool child = impl.children().find(name);
  const bool parameter = impl.own_parameters().find(name);
  if (child && nb::isinstance<ModuleImpl>(value)) {
    impl.replace_module(name, module_from(value));
  } else if (parameter && nb::isinstance<Parameter>(value)) {
    replace_parameter(impl, name, nb::cast<Tensor>(value));
  } else if (!child && !parameter && nb::isinstance<Tensor>(value)) {
    impl.bind_buffer(name, nb::cast<Tensor>(value));
  } else {
    const char* kind = child ? "an nn.Module" : parameter ? "an nn.Parameter" : "a tensor";
    raise_type_error("nn.Module: the member '{}' is {} and cannot be replaced by {}", name, kind,
                     class_name(value));
  }
  return true;
}

/// Modules and parameters become members; a member that exists is replaced; the rest are plain
/// attributes.
void set_attribute(nb::handle self, nb::handle key, nb::handle value) {
  const auto name = nb::cast<std::string>(key);
  const bool is_module = nb::isinstance<ModuleImpl>(value);
  const bool is_part = is_module || nb::isinstance<Parameter>(value);
  if (!has_setter(self, key)) {
    if (nb::inst_ready(self) && is_member(impl_of(self), name)) {
      if (replace_member(impl_of(self), name, value)) return;
    } else if (is_part) {
      ModuleImpl& impl = impl_of(self);
      // self.part = None may have stood there before, and would hide the member.
      if (nb::hasattr(self, "__dict__")) self.attr("__dict__").attr("pop")(key, nb::none());
      if (is_module) return impl.register_module(name, module_from(value));
      return register_parameter(impl, name, nb::cast<Tensor>(value));
    }
  }
  if (PyObject_GenericSetAttr(self.ptr(), key.ptr(), value.ptr()) < 0) nb::raise_python_error();
}

/// Called when there is no plain attribute of that name.
nb::object get_attribute(nb::handle self, const std::string& name) {
  if (nb::inst_ready(self)) {
    ModuleImpl& impl = impl_of(self);
    const auto parameters = impl.own_parameters();
    if (const Tensor* p = parameters.find(name)) return parameter_object(impl, *p);
    const auto children = impl.children();
    if (const nn::Module* m = children.find(name)) return module_to_python(*m);
    const auto buffers = impl.own_buffers();
    if (const Tensor* b = buffers.find(name)) return nb::cast(*b);
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

nb::list named_modules(nb::handle self, const std::string& prefix) {
  nb::list list;
  for (const auto& [name, module] : module_from(self).named_modules())
    list.append(nb::make_tuple(below(prefix, name), module_to_python(module)));
  return list;
}

nb::list with_prefix(const nb::list& pairs, const std::string& prefix) {
  if (prefix.empty()) return pairs;
  nb::list list;
  for (const nb::handle pair : pairs)
    list.append(nb::make_tuple(below(prefix, nb::cast<std::string>(pair[0])), pair[1]));
  return list;
}

nb::list named_parameters(nb::handle self, bool recurse) {
  nb::list list;
  std::set<const TensorImpl*> seen;
  const nn::Module root = module_from(self);
  for (const auto& [path, module] :
       recurse ? root.named_modules() : decltype(root.named_modules()){{"", root}})
    for (const auto& [name, t] : module.impl()->own_parameters())
      if (seen.insert(t.impl()).second)
        list.append(nb::make_tuple(below(path, name), parameter_object(*module.impl(), t)));
  return list;
}

nb::list named_buffers(nb::handle self, bool recurse) {
  nb::list list;
  const nn::Module root = module_from(self);
  for (const auto& [name, t] :
       recurse ? root.named_buffers() : nn::NamedTensors(root.impl()->own_buffers()))
    list.append(nb::make_tuple(name, t));
  return list;
}

/// In a dictionary that is given, or a new one.
nb::typed<nb::dict, nb::str, Tensor> state_dict(nb::handle self, nb::handle destination,
                                                const std::string& prefix, bool keep_vars) {
  const nn::Module module = module_from(self);
  nb::object state = destination.is_none() ? nb::object(nb::dict()) : nb::borrow(destination);
  for (const auto& [name, tensor] : module.state_dict()) {
    const nb::object key = nb::cast(prefix + name);
    state[key] = keep_vars ? self.attr("get_parameter_or_buffer")(name) : nb::cast(tensor);
  }
  return nb::typed<nb::dict, nb::str, Tensor>(nb::borrow<nb::dict>(state));
}

/// The parameter or buffer of a dotted name, and whose it is.
std::pair<nn::Module, Tensor> find_tensor(nb::handle self, const std::string& path,
                                          nn::Members<Tensor>::Snapshot (ModuleImpl::*members)()
                                              const) {
  nn::Module module = module_from(self);
  const size_t dot = path.rfind('.');
  if (dot != std::string::npos) module = module.at(path.substr(0, dot));
  const std::string name = path.substr(dot + 1);  // all of it where there is no dot
  const auto own = (module.impl().get()->*members)();
  if (const Tensor* t = own.find(name)) return {module, *t};
  throw nb::attribute_error(
      fmt::format("nn.Module: {} has no {} '{}'", module.impl()->type_name(),
                  members == &ModuleImpl::own_buffers ? "buffer" : "parameter", name)
          .c_str());
}

nb::object find_parameter(nb::handle self, const std::string& path) {
  const auto [module, t] = find_tensor(self, path, &ModuleImpl::own_parameters);
  return parameter_object(*module.impl(), t);
}
Tensor find_buffer(nb::handle self, const std::string& path) {
  return find_tensor(self, path, &ModuleImpl::own_buffers).second;
}

/// What is missing or unknown is left out where not `strict`, and returned by name.
nb::object load_state_dict(nb::handle self, const nn::StateDict& state, bool strict, bool assign) {
  check<Unsupported>(!assign, "load_state_dict: values are copied in, so assign=True is not there");
  const nn::Module module = module_from(self);
  nn::StateDict known = state;
  nb::list missing;
  nb::list unexpected;
  if (!strict) {
    const nn::StateDict own = module.state_dict();
    known = {};
    for (const auto& [name, value] : state) {
      if (own.contains(name)) {
        known.emplace(name, value);
      } else {
        unexpected.append(name);
      }
    }
    for (const auto& [name, value] : own)
      if (known.emplace(name, value).second) missing.append(name);
  }
  without_gil([&] { module.load_state_dict(known); });
  const nb::object type =
      nb::module_::import_("collections")
          .attr("namedtuple")("IncompatibleKeys", "missing_keys unexpected_keys");
  return type(missing, unexpected);
}

void bind_state(ModuleClass& module) {
  module.def(
      "named_parameters",
      [](nb::handle self, const std::string& prefix, bool recurse, bool /*remove_duplicate*/) {
        return listed(with_prefix(named_parameters(self, recurse), prefix));
      },
      "prefix"_a = "", "recurse"_a = true, "remove_duplicate"_a = true,
      "Pairs of dotted name and parameter, its own first, then its children's, each once.");
  module.def(
      "parameters",
      [](nb::handle self, bool recurse) { return values(named_parameters(self, recurse)); },
      "recurse"_a = true, "Those of named_parameters.");
  module.def(
      "named_buffers",
      [](nb::handle self, const std::string& prefix, bool recurse, bool /*remove_duplicate*/) {
        return listed(with_prefix(named_buffers(self, recurse), prefix));
      },
      "prefix"_a = "", "recurse"_a = true, "remove_duplicate"_a = true,
      "Pairs of dotted name and buffer: state that is not trained.");
  module.def(
      "buffers", [](nb::handle self, bool recurse) { return values(named_buffers(self, recurse)); },
      "recurse"_a = true, "Those of named_buffers.");
  module.def(
      "named_children", [](const ModuleImpl& impl) { return listed(named_children(impl)); },
      "Pairs of name and module right below this one.");
  module.def(
      "children", [](const ModuleImpl& impl) { return values(named_children(impl)); },
      "The modules right below this one.");
  module.def(
      "named_modules",
      [](nb::handle self, nb::handle /*memo*/, const std::string& prefix, bool /*duplicates*/) {
        return listed(named_modules(self, prefix));
      },
      "memo"_a = nb::none(), "prefix"_a = "", "remove_duplicate"_a = true,
      "Pairs of dotted name and module: itself and all below it, each once.");
  module.def(
      "modules", [](nb::handle self) { return values(named_modules(self, "")); },
      "Those of named_modules.");
  module.def(
      "get_submodule",
      [](nb::handle self, const std::string& target) {
        return target.empty() ? nb::borrow(self) : module_to_python(module_from(self).at(target));
      },
      "target"_a, "The module of a dotted name below this one.");
  module.def("get_parameter", find_parameter, "target"_a,
             "The parameter of a dotted name; AttributeError where there is none.");
  module.def("get_buffer", find_buffer, "target"_a,
             "The buffer of a dotted name; AttributeError where there is none.");
  module.def("state_dict", state_dict, nb::kw_only(), "destination"_a = nb::none(), "prefix"_a = "",
             "keep_vars"_a = false,
             "Parameters and buffers by dotted name, in the order in which they were registered; "
             "they share the module's memory. Without history, unless keep_vars says so.");
  module.def(
      "get_parameter_or_buffer",
      [](nb::handle self, const std::string& target) -> nb::object {
        try {
          return find_parameter(self, target);
        } catch (const nb::builtin_exception&) {
          return nb::cast(find_buffer(self, target));
        }
      },
      "target"_a, "The parameter or buffer of a dotted name; AttributeError where there is none.");
  module.def("load_state_dict", load_state_dict, "state_dict"_a, "strict"_a = true,
             "assign"_a = false,
             "Copies values in. A missing, unknown or misshapen entry raises, and then nothing was "
             "changed; with strict=False the missing and the unknown are passed over, and named in "
             "what is returned.");
  module.def(
      "apply",
      [](nb::handle self, nb::handle function) {
        module_from(self).apply([&](const nn::Module& m) { function(module_to_python(m)); });
        return nb::borrow(self);
      },
      "function"_a, "Calls a function with every module below this one and then with this one.");
  module.def(
      "reset_parameters",
      [](nb::handle self) { without_gil([m = module_from(self)] { m.reset_parameters(); }); },
      "Draws every parameter that has an initialiser anew.");
}

void bind_registration(ModuleClass& module) {
  module.def("__setattr__", set_attribute, "name"_a, nb::arg("value").none());
  module.def("__getattr__", get_attribute);
  module.def("__delattr__", delete_attribute);
  module.def(
      "register_parameter",
      [](nb::handle self, const std::string& name, const std::optional<Tensor>& value) {
        if (!value) return nb::setattr(self, name.c_str(), nb::none());
        register_parameter(impl_of(self), name, *value);
      },
      "name"_a, nb::arg("param").none(), "As `self.name = Parameter(…)`, or None.");
  module.def(
      "register_buffer",
      [](nb::handle self, const std::string& name, const std::optional<Tensor>& value,
         bool persistent) {
        if (!value) return nb::setattr(self, name.c_str(), nb::none());
        impl_of(self).register_buffer(name, *value, persistent);
      },
      "name"_a, nb::arg("tensor").none(), "persistent"_a = true,
      "A tensor that belongs to the state but is not trained; to the state_dict too, if it is "
      "persistent.");
  for (const char* name : {"register_module", "add_module"}) {
    module.def(
        name,
        [](ModuleImpl& impl, const std::string& child, nb::handle value) {
          impl.register_module(child, module_from(value));
        },
        "name"_a, "module"_a, "As `self.name = module`.");
  }
}

/// Null where there is none: one that is being taken down is none, nor one that was made another
/// tensor (squeeze_).
PyObject* stands_for(const Tensor& t) {
  const AutogradMeta* meta = t.impl()->autograd.get();
  auto* object = meta ? static_cast<PyObject*>(meta->object) : nullptr;
  const bool stands =
      object && Py_REFCNT(object) > 0 && nb::inst_ptr<Parameter>(object)->impl() == t.impl();
  return stands ? object : nullptr;
}

/// The module keeps the object as long as it has the parameter.
void keep(ModuleImpl& owner, const Tensor& t, nb::handle object) {
  auto* parameter = nb::inst_ptr<Parameter>(object);
  ++parameter->keepers;
  owner.keep_object(t, {object.inc_ref().ptr(), [parameter](void* kept) {
                          if (!nb::is_alive()) return;
                          const nb::gil_scoped_acquire acquire;
                          --parameter->keepers;
                          nb::handle(static_cast<PyObject*>(kept)).dec_ref();
                        }});
}

}  // namespace

ModuleImpl& impl_of(nb::handle self) {
  check(nb::inst_ready(self),
        "nn.Module: call super().__init__() before the first member is assigned");
  return *nb::inst_ptr<ModuleImpl>(self);
}

Parameter::~Parameter() {
  if (noted.defined() && noted.impl()->autograd->object == object)
    noted.impl()->autograd->object = nullptr;
}

void Parameter::stand_in(PyObject* self) {
  auto& meta = impl()->autograd;
  if (!meta) meta = std::make_unique<AutogradMeta>();
  meta->object = object = self;
  noted = *this;
}

nb::object parameter_object(const Tensor& t) {
  if (PyObject* there = stands_for(t)) return nb::borrow(there);
  nb::object made = nb::cast(Parameter(t));
  nb::inst_ptr<Parameter>(made)->stand_in(made.ptr());
  return made;
}

nb::object parameter_object(ModuleImpl& owner, const Tensor& t) {
  nb::object object = parameter_object(t);
  if (nb::inst_ptr<Parameter>(object)->keepers == 0) keep(owner, t, object);
  return object;
}

nb::object tensor_object(const Tensor& t) {
  PyObject* there = stands_for(t);
  return there ? nb::borrow(there) : nb::cast(t);
}

void register_parameter(ModuleImpl& impl, const std::string& name, const Tensor& value) {
  const bool requires_grad = value.requires_grad();
  impl.register_parameter(name, value);
  value.set_requires_grad(requires_grad);
  keep(impl, value, parameter_object(value));
}

bool has_setter(nb::handle self, nb::handle key) {
  const nb::object type = nb::borrow(reinterpret_cast<PyObject*>(Py_TYPE(self.ptr())));
  const nb::object found = nb::getattr(type, key, nb::none());
  return nb::hasattr(found, "fset") && !found.attr("fset").is_none();
}

void replace_parameter(ModuleImpl& impl, const std::string& name, const Tensor& value) {
  const bool requires_grad = value.requires_grad();
  impl.replace_parameter(name, value);
  value.set_requires_grad(requires_grad);
  keep(impl, value, parameter_object(value));
}

void set_parameter(ModuleImpl& impl, const std::string& name, nb::handle value) {
  const bool registered = impl.own_parameters().find(name) != nullptr;
  if (nb::isinstance<Parameter>(value)) {
    const auto parameter = nb::cast<Tensor>(value);
    registered ? replace_parameter(impl, name, parameter)
               : register_parameter(impl, name, parameter);
  } else if (registered) {
    raise_type_error("nn.{}: '{}' is a parameter; expected an nn.Parameter, got {}",
                     impl.type_name(), name, class_name(value));
  }
}

std::string describe_python(nb::handle self, const std::string& own) {
  const auto extra = nb::cast<std::string>(self.attr("extra_repr")());
  return class_name(self) + (extra.empty() ? own.substr(own.find('(')) : "(" + extra + ")");
}

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
  std::vector<PyType_Slot> slots = gradient_slots();
  slots.push_back({0, nullptr});
  nb::class_<Parameter, Tensor> parameter(
      scope, "Parameter", nb::dynamic_attr(), nb::type_slots(slots.data()),
      "A tensor that a module registers when it is assigned to it.");
  note_attributes(parameter);
  parameter
      .def(
          "__init__",
          [](nb::pointer_and_handle<Parameter> self, const Tensor& data, bool requires_grad) {
            const auto* made = new (self.p) Parameter(data.detach());
            made->set_requires_grad(requires_grad);
            self.p->stand_in(self.h.ptr());
          },
          "data"_a, "requires_grad"_a = true)
      .def("__copy__", [](const Parameter& p) { return p; })
      .def(
          "__deepcopy__",
          [](const Parameter& p, nb::dict memo) { return Parameter(deep_copy(p, memo, false)); },
          "memo"_a);

  ModuleClass module(scope, "Module", nb::type_slots(module_slots), nb::is_weak_referenceable(),
                     nb::dynamic_attr(),
                     "Base of layers and networks. One's own calls super().__init__(), assigns its "
                     "parts and defines "
                     "forward(self, x).");
  module.def(nb::init<>());
  module.def(
      "forward",
      [](ModuleImpl& self, const nb::args& inputs) {
        return forward_values(inputs, [&](const Values& in) { return self.call(in); });
      },
      "inputs"_a, "What calling the module computes; a class of one's own defines it.");
  module.def("__repr__", [](nb::handle self) { return nn::to_string(module_from(self)); });
  module.def(
      "extra_repr", [](nb::handle) { return ""; },
      "What a class of one's own says in the brackets of its repr.");
  bind_state(module);
  bind_registration(module);
  bind_modes(module);
  bind_module_call(module);
  bind_module_copies(module);
  bind_layers(scope);
  bind_init(scope);
  bind_summary(scope);
}

}  // namespace mica::python
