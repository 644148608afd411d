#pragma once

// How modules cross between Python and C++.
#include <nanobind/trampoline.h>

#include <map>
#include <typeindex>

#include "mica/nn/module.h"
#include "python/src/bindings.h"
#include "python/src/module_options.h"

namespace mica::python {

/// Whether Python has a class for modules of that type.
bool has_class(const std::type_info& type);

}  // namespace mica::python

/// Modules made in C++ are known by their own class, whatever a handle added to it.
template <class Impl>
struct nanobind::detail::type_hook<
    Impl, std::enable_if_t<std::is_base_of_v<mica::nn::ModuleImpl, Impl>, int>> {
  static const std::type_info* get(const Impl* impl) {
    const bool known = impl && mica::python::has_class(impl->class_type());
    return known ? &impl->class_type() : &typeid(Impl);
  }
};

namespace mica::python {

/// A parameter is a tensor that a Python module registers when it is assigned. One object stands
/// for it as long as that lives, and a module that has given it to Python keeps it.
struct Parameter : Tensor {
  explicit Parameter(const Tensor& t) : Tensor(t) {}
  Parameter(const Parameter& other) : Tensor(other) {}
  Parameter& operator=(const Parameter&) = delete;
  ~Parameter();
  /// The object that it is in stands for the tensor from now on.
  void stand_in(PyObject* self);

  PyObject* object = nullptr;
  Tensor noted;     ///< which knows the object
  int keepers = 0;  ///< modules
};

/// The object that stands for a tensor: the Parameter that there is, or a new one.
nb::object parameter_object(const Tensor& t);
/// The same of a module's parameter.
nb::object parameter_object(nn::ModuleImpl& owner, const Tensor& t);
/// The Parameter that stands for the tensor where there is one, else a new Tensor.
nb::object tensor_object(const Tensor& t);

/// Lets a C++ handle own a Python object: the deleter of the shared_ptr to the module inside it.
struct PythonOwner {
  PyObject* object;
  void operator()(nn::ModuleImpl*) const noexcept;
};

/// A C++ handle to a Python module object, which it keeps alive. Raises TypeError for anything
/// else.
nn::Module module_from(nb::handle object);
/// The Python object of a module: the one it came from, or one that shares a module made in C++.
nb::object module_to_python(const nn::Module& module);

/// What is inside a Python object of a module; raises where super().__init__() was not called.
nn::ModuleImpl& impl_of(nb::handle self);

// Parameters that Python makes keep whether they require a gradient.
void register_parameter(nn::ModuleImpl& impl, const std::string& name, const Tensor& value);
void replace_parameter(nn::ModuleImpl& impl, const std::string& name, const Tensor& value);
/// `layer.weight = value` where the layer keeps a handle of its own to that parameter: a Parameter
/// takes its place or is registered again, a plain tensor may stand there once it was taken out.
void set_parameter(nn::ModuleImpl& impl, const std::string& name, nb::handle value);

/// Whether assigning goes to a property of a layer made in C++, which keeps its own handle.
bool has_setter(nb::handle self, nb::handle key);

/// How the garbage collector looks into a module; for every class that is bound.
extern PyType_Slot module_slots[];

/// By the name of the Python class: "Net(extra_repr())", or what C++ says in the brackets.
std::string describe_python(nb::handle self, const std::string& own);

/// forward(inputs) of a module of Python, under the GIL.
Values call_python(nb::handle self, const Values& inputs);

/// The value, with the GIL let go until the expression that it is used in ends.
template <class T>
T released(T value, const nb::gil_scoped_release& /*release*/ = {}) {
  return value;
}
struct WithoutGil {};

/// Whether the class of a Python object defines `forward`; the GIL is held where it does.
class OverriddenForward {
 public:
  explicit OverriddenForward(const nb::detail::trampoline& object)
      : ticket_(object, "forward", kHash, false) {}
  bool is_there() const { return ticket_.key.is_valid(); }

 private:
  static constexpr uint64_t kHash = nb::detail::str_hash("forward");
  nb::detail::ticket ticket_;
};

/// A module class that Python can derive from: where the derived class defines `forward`, C++ calls
/// that.
template <class Base>
struct Overridable : nn::MadeFor<Base>::Type {
  using Made = typename nn::MadeFor<Base>::Type;
  NB_TRAMPOLINE(Made);
  Overridable() = default;
  explicit Overridable(const Base& other) : Made(other) {}
  /// Layers draw their weights without the GIL; the trampoline behind them needs it again.
  template <class Options>
  Overridable(WithoutGil /*tag*/, const Options& given) : Made(released(given)) {}

  Values call(const Values& inputs) override {
    const OverriddenForward own(nb_trampoline);
    if (own.is_there()) return call_python(nb_trampoline.base(), inputs);
    return Made::call(inputs);
  }

  std::string describe() const override {
    const nb::gil_scoped_acquire acquire;
    return describe_python(nb_trampoline.base(), Base::describe());
  }
};

/// A module that Python derives from Module itself.
template <>
struct Overridable<nn::ModuleImpl> : nn::ModuleImpl {
  NB_TRAMPOLINE(nn::ModuleImpl);
  Overridable() = default;
  explicit Overridable(const nn::ModuleImpl& other) : nn::ModuleImpl(other) {}

  Values call(const Values& inputs) override {
    const OverriddenForward own(nb_trampoline);
    if (own.is_there()) return call_python(nb_trampoline.base(), inputs);
    const nb::gil_scoped_acquire acquire;
    fail<Unsupported>("nn.Module: {} must define forward(self, …)",
                      class_name(nb_trampoline.base()));
  }
  std::string describe() const override {
    const nb::gil_scoped_acquire acquire;
    return describe_python(nb_trampoline.base(), nn::ModuleImpl::describe());
  }
};

/// What a constructor does once the module is there. nanobind lets go of the memory of an object
/// whose constructor raises as if nothing were in it, so the module is taken down first.
template <class F>
void complete(nn::ModuleImpl* self, F&& rest) {
  try {
    rest();
  } catch (...) {
    self->~ModuleImpl();
    throw;
  }
}

/// A new object of the class of `self`: a module with the same options and no parts yet.
template <class Impl>
nb::object copy_without_parts(nb::handle self) {
  nb::object copy = nb::inst_alloc(self.type());
  new (nb::inst_ptr<Impl>(copy)) Overridable<Impl>(*nb::inst_ptr<Impl>(self));
  nb::inst_mark_ready(copy);
  return copy;
}

/// By the type of the module in C++.
using Copiers = std::map<std::type_index, nb::object (*)(nb::handle self)>;
Copiers& copiers();

/// How pickle makes a module of this class again: by its options where it has any, by nothing where
/// its parts are all there is to it.
template <class Impl>
Remake remake_of() {
  if constexpr (requires(const Impl& impl) { impl.options; }) {
    using Options = std::remove_cvref_t<decltype(std::declval<const Impl&>().options)>;
    if constexpr (std::is_constructible_v<typename nn::MadeFor<Impl>::Type, const Options&>)
      return Remake{
          [](nb::handle self) { return option_to_python(nb::inst_ptr<Impl>(self)->options); },
          [](nb::handle object, nb::handle options) {
            Options o{};
            option_from_python(options, o);
            new (nb::inst_ptr<Impl>(object)) Overridable<Impl>(WithoutGil(), o);
          }};
  } else if constexpr (requires(const Impl& impl) { impl.p; }) {
    return Remake{[](nb::handle self) { return nb::cast(nb::inst_ptr<Impl>(self)->p); },
                  [](nb::handle object, nb::handle p) {
                    new (nb::inst_ptr<Impl>(object))
                        Overridable<Impl>(WithoutGil(), nb::cast<double>(p));
                  }};
  } else if constexpr (std::is_default_constructible_v<Overridable<Impl>>) {
    return Remake{[](nb::handle) -> nb::object { return nb::none(); },
                  [](nb::handle object, nb::handle) {
                    new (nb::inst_ptr<Impl>(object)) Overridable<Impl>();
                  }};
  }
  return {};
}

/// Lets the garbage collector find the attributes of a class's objects.
void note_attributes(nb::handle type);
/// Where such an object keeps them; null where it has none.
PyObject** attributes_of(PyObject* self);

/// For every class that is bound.
template <class Impl>
void allow_copies() {
  note_attributes(nb::type<Impl>());
  set_remake(nb::type<Impl>(), remake_of<Impl>());
  copiers()[typeid(Impl)] = copiers()[typeid(Overridable<Impl>)] =
      copiers()[typeid(typename nn::MadeFor<Impl>::Type)] = copy_without_parts<Impl>;
}

using ModuleClass = nb::class_<nn::ModuleImpl, Overridable<nn::ModuleImpl>>;

/// What switches a whole module: device, dtype, training, which parameters learn.
void bind_modes(ModuleClass& module);
void bind_module_call(ModuleClass& module);
void bind_module_copies(ModuleClass& module);
/// The hooks of a module for another, Python's as `copy_of` gives them.
void copy_hooks(const nn::ModuleImpl& from, nn::ModuleImpl& to,
                const std::function<nb::object(nb::handle)>& copy_of);

}  // namespace mica::python
