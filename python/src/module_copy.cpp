// copy.copy, copy.deepcopy and pickle of modules.
#include <unordered_map>

#include "python/src/module_handle.h"

namespace mica::python {
namespace {

using nn::ModuleImpl;

/// A part of a module, or what is to stand for it in the copy.
using CopyOf = std::function<nb::object(nb::handle part)>;

nb::object new_like(nb::handle self) {
  const ModuleImpl& impl = impl_of(self);
  const auto copier = copiers().find(typeid(impl));
  check<Unsupported>(copier != copiers().end(),
                     "copy: {} is a module of C++ that Python does not know", impl.type_name());
  return copier->second(self);
}

/// reset_parameters() goes on working.
void copy_initials(const ModuleImpl& from, ModuleImpl& to) {
  const auto parameters = from.own_parameters();
  for (const auto& initial : from.own_initials())
    for (const auto& [name, parameter] : parameters)
      if (parameter.impl() == initial->parameter.impl())
        to.add_initial(
            {.parameter = *to.own_parameters().find(name), .initialize = initial->initialize});
}

void copy_parts(nb::handle self, nb::handle copy, const CopyOf& copy_of) {
  ModuleImpl& from = impl_of(self);
  ModuleImpl& to = impl_of(copy);
  // A layer's own handle follows by its property.
  const auto set_handle = [&](const std::string& name, nb::handle value) {
    if (has_setter(copy, nb::cast(name))) nb::setattr(copy, name.c_str(), value);
  };
  for (const auto& [name, parameter] : from.own_parameters()) {
    const nb::object part = copy_of(parameter_object(parameter));
    register_parameter(to, name, nb::cast<Tensor>(part));
    set_handle(name, part);
  }
  for (const auto& [name, buffer] : from.own_buffers()) {
    const nb::object part = copy_of(nb::cast(buffer));
    to.register_buffer(name, nb::cast<Tensor>(part), from.is_persistent(name));
    set_handle(name, part);
  }
  copy_initials(from, to);
  for (const auto& [name, child] : from.children())
    to.register_module(name, module_from(copy_of(module_to_python(child))));
  copy_hooks(from, to, copy_of);
  if (!nb::hasattr(self, "__dict__")) return;
  for (auto [name, value] : nb::borrow<nb::dict>(self.attr("__dict__")))
    copy.attr("__dict__")[name] = copy_of(value);
}

nb::object copy_module(nb::handle self) {
  nb::object other = new_like(self);
  copy_parts(self, other, [](nb::handle part) { return nb::borrow(part); });
  return other;
}

nb::object deep_copy_module(nb::handle self, nb::dict memo) {
  nb::object other = new_like(self);
  memo[nb::int_(reinterpret_cast<uintptr_t>(self.ptr()))] = other;  // a part may hold the whole
  const nb::object deepcopy = nb::module_::import_("copy").attr("deepcopy");
  copy_parts(self, other, [&](nb::handle part) { return deepcopy(part, memo); });
  return other;
}

std::unordered_map<PyTypeObject*, Remake>& remakes() {
  static std::unordered_map<PyTypeObject*, Remake> all;
  return all;
}
const Remake* remake_of_type(nb::handle of) {
  if (!PyType_Check(of.ptr())) return nullptr;
  const auto& known = remakes();
  for (auto* type = reinterpret_cast<PyTypeObject*>(of.ptr()); type;
       type = static_cast<PyTypeObject*>(PyType_GetSlot(type, Py_tp_base)))
    if (const auto it = known.find(type); it != known.end())
      return it->second.make ? &it->second : nullptr;
  return nullptr;
}

}  // namespace

void set_remake(nb::handle type, Remake remake) {
  remakes()[reinterpret_cast<PyTypeObject*>(type.ptr())] = remake;
}

bool has_class(const std::type_info& type) { return copiers().contains(type); }

Copiers& copiers() {
  static Copiers all;
  return all;
}

void bind_module_copies(ModuleClass& module) {
  allow_copies<ModuleImpl>();
  module.def("__copy__", copy_module);
  module.def("__deepcopy__", deep_copy_module, "memo"_a);
  // Python's side is in mica/nn/_pickled.py.
  module.def("__reduce_ex__", [](nb::handle self, int /*protocol*/) {
    return nb::module_::import_("mica.nn._pickled").attr("reduce")(self);
  });
  module.def(
      "_module_options",
      [](nb::handle self) {
        const ModuleImpl& impl = impl_of(self);
        const bool inside = nb::inst_state(self).second;  // else made in C++, of any class
        const Remake* remake =
            inside || has_class(typeid(impl)) ? remake_of_type(self.type()) : nullptr;
        if (!remake)
          raise_type_error(
              "{} cannot be pickled: save its state_dict(), and load that into another",
              class_name(self));
        return remake->options(self);
      },
      "What its layer was made with.");
  nb::setattr(module, "_make_module",
              nb::cpp_function(
                  [](nb::handle type, nb::handle options) {
                    const Remake* remake = remake_of_type(type);
                    if (!remake)
                      raise_type_error("unpickling: {} is no class of modules",
                                       nb::str(type).c_str());
                    nb::object made = nb::inst_alloc(type);
                    remake->make(made, options);
                    nb::inst_mark_ready(made);
                    return made;
                  },
                  nb::arg("type"), nb::arg("options").none()));
}

}  // namespace mica::python
