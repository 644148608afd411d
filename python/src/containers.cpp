// Sequential, ModuleList and ModuleDict as Python's lists and dictionaries.
#include "mica/nn/nn.h"

#include <algorithm>
#include "python/src/layer.h"
#include "python/src/values.h"

namespace mica::python {
namespace {

using nn::ModuleDictImpl;
using nn::ModuleImpl;
using nn::ModuleListImpl;
using nn::SequentialImpl;

/// The numbers of a ModuleList's places that hold None. They are an attribute of the object, so
/// copies and pickles have them.
constexpr const char* kEmptyPlaces = "_empty_places";

nb::list empty_places(nb::handle self) {
  const nb::str name(kEmptyPlaces);
  const nb::object found = nb::steal(PyObject_GenericGetAttr(self.ptr(), name.ptr()));
  if (!found.is_valid()) PyErr_Clear();
  return found.is_valid() ? nb::borrow<nb::list>(found) : nb::list();
}

nb::list children_of(const ModuleImpl& self) {
  nb::list list;
  for (const auto& [name, child] : self.children()) list.append(module_to_python(child));
  return list;
}

/// Modules, and None where there is none.
nb::list places(nb::handle self) {
  nb::list list = children_of(nb::cast<const ModuleImpl&>(self));
  for (const nb::handle i : empty_places(self)) list.insert(nb::cast<int64_t>(i), nb::none());
  return list;
}

size_t place_number(nb::handle self, int64_t i) {
  const auto& impl = nb::cast<const ModuleImpl&>(self);
  const auto n = static_cast<int64_t>(impl.children().size() + nb::len(empty_places(self)));
  check<IndexError>(i >= -n && i < n, "nn.{}: index {} is out of range for {} modules",
                    impl.type_name(), i, n);
  return static_cast<size_t>(i < 0 ? i + n : i);
}

void set_empty_places(nb::handle self, const nb::list& numbers) {
  const nb::str name(kEmptyPlaces);
  if (PyObject_GenericSetAttr(self.ptr(), name.ptr(), numbers.ptr()) < 0) nb::raise_python_error();
}

/// The object is given beside what it holds: in a constructor it cannot be asked for that yet.
template <class Impl>
void append(nb::handle self, Impl& impl, nb::handle module) {
  if (!std::is_same_v<Impl, ModuleListImpl>) {
    impl.push_back(module_from(module));
    return;
  }
  nb::list empty = empty_places(self);
  const size_t n = impl.children().size() + nb::len(empty);
  if (module.is_none()) {
    empty.append(n);
    set_empty_places(self, empty);
  } else {
    impl.register_module(std::to_string(n), module_from(module));
  }
}

/// Gives a list other modules.
template <class Impl>
void assign(nb::handle self, const nb::list& modules) {
  auto& impl = nb::cast<Impl&>(self);
  std::vector<std::string> names;
  for (const auto& [name, child] : impl.children()) names.push_back(name);
  for (const std::string& name : names) impl.unregister(name);
  if (nb::len(empty_places(self)) > 0) set_empty_places(self, nb::list());
  for (const nb::handle module : modules) append(self, nb::cast<Impl&>(self), module);
}

/// A slice is a container of the same kind with the same modules.
template <class Impl>
nb::object get_item(nb::handle self, nb::handle key) {
  if (int64_t i = 0; read_int(key, i)) return nb::object(places(self)[place_number(self, i)]);
  if (!PySlice_Check(key.ptr()))
    raise_type_error("nn.{}: expected an index or a slice, got {}",
                     nb::cast<const Impl&>(self).type_name(), class_name(key));
  const nb::object part = nb::object(places(self))[key];
  if constexpr (std::is_same_v<Impl, SequentialImpl>) {
    return nb::type<Impl>()(*nb::list(part));
  } else {
    return nb::type<Impl>()(part);
  }
}

/// What both kinds of list have.
template <class Impl>
void def_list(Layer<Impl>& list) {
  list.def(
      "append",
      [](nb::handle self, nb::handle module) {
        append(self, nb::cast<Impl&>(self), module);
        return nb::borrow(self);
      },
      "module"_a.none(), "Adds a module at the end, named by its number.");
  list.def(
      "extend",
      [](nb::handle self, nb::handle modules) {
        for (const nb::handle module : nb::iter(modules))
          append(self, nb::cast<Impl&>(self), module);
        return nb::borrow(self);
      },
      "modules"_a, "Adds modules at the end.");
  list.def(
      "insert",
      [](nb::handle self, int64_t index, nb::handle module) {
        nb::list modules = places(self);
        modules.insert(index, module);
        assign<Impl>(self, modules);
        return nb::borrow(self);
      },
      "index"_a, "module"_a.none(), "Puts a module before the one of that number.");
  list.def("__iadd__", [](nb::handle self, nb::handle modules) {
    self.attr("extend")(modules);
    return nb::borrow(self);
  });
  list.def("__delitem__", [](nb::handle self, nb::handle key) {
    nb::list kept = places(self);
    if (PyObject_DelItem(kept.ptr(), key.ptr()) < 0) nb::raise_python_error();
    assign<Impl>(self, kept);
  });
  list.def("__len__", [](nb::handle self) {
    return nb::cast<const Impl&>(self).children().size() + nb::len(empty_places(self));
  });
  list.def("__iter__", [](nb::handle self) { return nb::iter(places(self)); });
  list.def("__getitem__", get_item<Impl>);
  list.def(
      "__setitem__",
      [](nb::handle self, int64_t i, nb::handle module) {
        const size_t at = place_number(self, i);
        nb::list modules = places(self);
        if (module.is_none() || modules[at].is_none()) {
          modules[at] = module;
          return assign<Impl>(self, modules);
        }
        auto& impl = nb::cast<Impl&>(self);
        const auto before = static_cast<size_t>(std::ranges::count_if(
            empty_places(self), [&](nb::handle empty) { return nb::cast<size_t>(empty) < at; }));
        impl.replace_module(std::string(impl.children()[at - before].first), module_from(module));
      },
      "index"_a, "module"_a.none());
}

void bind_dict(nb::module_& nn) {
  Layer<ModuleDictImpl> dict(nn, "ModuleDict", nb::type_slots(module_slots),
                             "Modules by name, which their owner calls itself.");
  allow_copies<ModuleDictImpl>();
  const auto update = [](ModuleDictImpl& self, nb::handle modules) {
    const nb::object items =
        nb::hasattr(modules, "items") ? nb::object(modules.attr("items")()) : nb::borrow(modules);
    for (const nb::handle item : nb::iter(items)) {
      const auto name = nb::cast<std::string>(item[0]);
      const nn::Module module = module_from(item[1]);
      const bool known = self.children().find(name);
      known ? self.replace_module(name, module) : self.register_module(name, module);
    }
  };
  dict.def(
      "__init__",
      [update](ModuleDictImpl* self, nb::handle modules) {
        new (self) Overridable<ModuleDictImpl>();
        complete(self, [&] {
          if (!modules.is_none()) update(*self, modules);
        });
      },
      "modules"_a = nb::none());
  dict.def("update", update, "modules"_a,
           "Takes in the modules of a dictionary, or of pairs (name, module).");
  dict.def("__len__", [](const ModuleDictImpl& self) { return self.children().size(); });
  dict.def("__setitem__", [update](ModuleDictImpl& self, nb::handle name, nb::handle module) {
    nb::dict one;
    one[name] = module;
    update(self, one);
  });
  const auto require = [](const ModuleDictImpl& self, const std::string& name) {
    const auto children = self.children();
    const nn::Module* found = children.find(name);
    if (!found) throw nb::key_error(name.c_str());
    return *found;
  };
  dict.def("__getitem__", [require](const ModuleDictImpl& self, const std::string& name) {
    return module_to_python(require(self, name));
  });
  dict.def("__delitem__", [require](ModuleDictImpl& self, const std::string& name) {
    require(self, name);
    self.unregister(name);
  });
  dict.def("__contains__", [](const ModuleDictImpl& self, const std::string& name) {
    return self.children().find(name) != nullptr;
  });
  const auto keys = [](const ModuleDictImpl& self) {
    nb::list list;
    for (const auto& [name, child] : self.children()) list.append(nb::cast(name));
    return list;
  };
  dict.def(
      "pop",
      [require](ModuleDictImpl& self, const std::string& name) {
        const nb::object module = module_to_python(require(self, name));
        self.unregister(name);
        return module;
      },
      "key"_a, "Takes a module out and returns it.");
  dict.def(
      "clear",
      [](ModuleDictImpl& self) {
        std::vector<std::string> names;
        for (const auto& [name, child] : self.children()) names.push_back(name);
        for (const std::string& name : names) self.unregister(name);
      },
      "Takes all modules out.");
  dict.def("keys", keys, "The names.");
  dict.def("__iter__", [keys](const ModuleDictImpl& self) { return nb::iter(keys(self)); });
  dict.def("values", [](const ModuleDictImpl& self) { return children_of(self); }, "The modules.");
  dict.def(
      "items",
      [](const ModuleDictImpl& self) {
        nb::list list;
        for (const auto& [name, child] : self.children())
          list.append(nb::make_tuple(name, module_to_python(child)));
        return list;
      },
      "Pairs (name, module).");
}

}  // namespace

void bind_containers(nb::module_& nn) {
  constexpr const char* kDoc =
      "One module after the other, named \"0\", \"1\", …, or as a dictionary names them. Each is "
      "called with what the one before gave; where its forward has several parameters, a tuple or "
      "list stands for them in order and a dict by name.";
  Layer<SequentialImpl> sequential(nn, "Sequential", nb::type_slots(module_slots), kDoc);
  allow_copies<SequentialImpl>();
  // Apart from the next, which makes a tuple for every call.
  sequential.def(
      "forward",
      [](SequentialImpl& self, const Tensor& x) {
        return values_to_python(without_gil([&] { return self.SequentialImpl::call(x); }));
      },
      "input"_a, kDoc);
  sequential.def(
      "forward",
      [](SequentialImpl& self, const nb::args& inputs) {
        return forward_values(inputs,
                              [&](const Values& in) { return self.SequentialImpl::call(in); });
      },
      "inputs"_a, kDoc);
  sequential.def("__init__", [](SequentialImpl* self, const nb::args& modules) {
    new (self) Overridable<SequentialImpl>();
    complete(self, [&] {
      if (modules.size() == 1 && nb::isinstance<nb::dict>(modules[0])) {
        for (auto [name, module] : nb::borrow<nb::dict>(modules[0]))
          self->register_module(nb::cast<std::string>(name), module_from(module));
        return;
      }
      for (const nb::handle module : modules) self->push_back(module_from(module));
    });
  });
  def_list(sequential);

  Layer<ModuleListImpl> list(
      nn, "ModuleList", nb::type_slots(module_slots),
      "Modules that their owner calls itself, named \"0\", \"1\", …; a place "
      "may hold None.");
  allow_copies<ModuleListImpl>();
  list.def(
      "__init__",
      [](nb::pointer_and_handle<ModuleListImpl> self, nb::handle modules) {
        new (self.p) Overridable<ModuleListImpl>();
        complete(self.p, [&] {
          if (modules.is_none()) return;
          for (const nb::handle module : nb::iter(modules)) append(self.h, *self.p, module);
        });
      },
      "modules"_a = nb::none());
  def_list(list);
  bind_dict(nn);
}

}  // namespace mica::python
