// The functions of mica, mica.nn.functional and the methods of Tensor: one Python type, whose
// objects call a Function. CPython's vectorcall passes arguments without making a tuple of them.
#include "mica/op/function.h"

#include <nanobind/nanobind.h>
#include <structmember.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <deque>
#include <map>
#include <span>

#include "mica/ops/linalg/results.h"
#include "python/src/arguments.h"
#include "python/src/custom.h"
#include "python/src/other_words.h"

namespace mica::python {
namespace {

struct FunctionObject {
  PyObject ob_base;
  vectorcallfunc vectorcall;
  const Function* function;
  const char* name;  ///< which may be a second one
  const char* module;
  bool method;
  PyObject* results;  ///< the named tuple that its results come in; null for none
};

FunctionObject& object_of(PyObject* self) { return *reinterpret_cast<FunctionObject*>(self); }

std::string list_of_signatures(const FunctionObject& f) {
  std::string text;
  for (const std::string& s : signatures_of(*f.function, f.name, f.method)) text += "\n  " + s;
  return text;
}

/// The class of an object, and of what a list or tuple holds: "[Tensor, ndarray]".
std::string kind_of(nb::handle value) {
  if (!PyList_Check(value.ptr()) && !PyTuple_Check(value.ptr())) return class_name(value);
  constexpr size_t kShown = 4;
  std::string inside;
  size_t n = 0;
  for (; const nb::object entry = entry_of(value, static_cast<Py_ssize_t>(n)); ++n) {
    if (n == kShown) return "[" + inside + ", …]";
    inside += (n > 0 ? ", " : "") + class_name(entry);
  }
  return "[" + inside + "]";
}

[[noreturn]] void raise_mismatch(const FunctionObject& f, PyObject* const* given, size_t positional,
                                 PyObject* names) {
  std::string got;
  const size_t named = names ? nb::len(names) : 0;
  for (size_t i = 0; i < positional + named; ++i) {
    if (i > 0) got += ", ";
    if (i >= positional)
      got +=
          nb::cast<std::string>(nb::handle(names)[static_cast<Py_ssize_t>(i - positional)]) + "=";
    got += kind_of(given[i]);
  }
  raise_type_error("{}: expected arguments as in{}\ngot ({})", f.name, list_of_signatures(f), got);
}

/// What Python passes to a call.
struct Given {
  const FunctionObject& function;
  PyObject* const* objects;
  size_t positional;
  PyObject* names;
};

PyObject* finish(const Given& given, std::span<const Argument> values,
                 std::span<const NamedArgument> named) {
  BoundCall bound;
  if (!bound.bind(*given.function.function, values, named)) {
    nb::object other = call_in_other_words(*given.function.function, values, named,
                                           given.objects + given.positional);
    if (other.is_valid()) return other.release().ptr();
    raise_mismatch(given.function, given.objects, given.positional, given.names);
  }
  nb::object result = to_object(without_gil(bound), bound.signature().result);
  if (PyObject* const type = given.function.results)
    return nb::object(nb::handle(type).attr("_make")(result)).release().ptr();
  return result.release().ptr();
}

PyObject* finish_named(const Given& given, std::span<const Argument> values) {
  std::vector<NamedArgument> named(nb::len(given.names));
  for (size_t i = 0; i < named.size(); ++i) {
    Py_ssize_t length = 0;
    PyObject* name = PyTuple_GetItem(given.names, static_cast<Py_ssize_t>(i));
    const char* text = PyUnicode_AsUTF8AndSize(name, &length);
    if (!text) nb::raise_python_error();
    named[i] = {{text, static_cast<size_t>(length)},
                to_argument(given.objects[given.positional + i])};
  }
  return finish(given, values, named);
}

PyObject* call(const Given& given) {
  // More arguments than parameters has only what spreads over them.
  constexpr size_t kFew = 4;
  std::array<Argument, kFew> few;
  std::vector<Argument> many(given.positional > kFew ? given.positional : 0);
  const std::span<Argument> values(many.empty() ? few.data() : many.data(), given.positional);
  for (size_t i = 0; i < given.positional; ++i) read_argument(given.objects[i], values[i]);
  return given.names ? finish_named(given, values) : finish(given, values, {});
}

PyObject* vectorcall(PyObject* self, PyObject* const* given, size_t flags, PyObject* names) {
  try {
    return call({object_of(self), given, static_cast<size_t>(PyVectorcall_NARGS(flags)), names});
  } catch (...) {
    set_error(std::current_exception());
    return nullptr;
  }
}

PyObject* bind_to(PyObject* self, PyObject* instance, PyObject*) {
  if (!instance || instance == Py_None) return Py_NewRef(self);
  static PyObject* const method_type =
      nb::object(nb::module_::import_("types").attr("MethodType")).release().ptr();
  return PyObject_CallFunctionObjArgs(method_type, self, instance, nullptr);
}

/// A getter whose exceptions are Python's.
template <class Get>
PyObject* got(Get&& get) {
  try {
    return nb::object(get()).release().ptr();
  } catch (...) {
    set_error(std::current_exception());
    return nullptr;
  }
}
PyObject* get_name(PyObject* self, void*) { return PyUnicode_FromString(object_of(self).name); }
PyObject* get_module(PyObject* self, void*) { return PyUnicode_FromString(object_of(self).module); }
PyObject* get_qualified_name(PyObject* self, void*) {
  const FunctionObject& f = object_of(self);
  return PyUnicode_FromFormat("%s%s", f.method ? "Tensor." : "", f.name);
}
PyObject* get_signatures(PyObject* self, void*) {
  return got([self] {
    const FunctionObject& f = object_of(self);
    return nb::tuple(nb::cast(signatures_of(*f.function, f.name, f.method)));
  });
}
/// For inspect.signature.
PyObject* get_signature(PyObject* self, void*) {
  return got([self] {
    return nb::module_::import_("mica._signatures").attr("of_function")(nb::handle(self));
  });
}
PyObject* get_doc(PyObject* self, void*) {
  return got([self] {
    const FunctionObject& f = object_of(self);
    std::string text;
    for (const std::string& s : signatures_of(*f.function, f.name, f.method)) text += s + "\n";
    return nb::cast(text + "\n" + f.function->doc);
  });
}
PyObject* describe(PyObject* self) {
  const FunctionObject& f = object_of(self);
  return PyUnicode_FromFormat("<function %s%s>", f.method ? "Tensor." : "", f.name);
}
/// Copies and pickles are the function itself, found by its name.
PyObject* reduce(PyObject* self, PyObject*) { return get_qualified_name(self, nullptr); }

void free_object(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

/// Of functions, or of methods, which Python calls with the object they are taken from.
PyObject* make_type(bool method) {
  static PyMemberDef members[] = {
      {"__vectorcalloffset__", T_PYSSIZET, offsetof(FunctionObject, vectorcall), READONLY, nullptr},
      {nullptr, 0, 0, 0, nullptr}};
  static PyGetSetDef getters[] = {{"__name__", get_name, nullptr, nullptr, nullptr},
                                  {"__qualname__", get_qualified_name, nullptr, nullptr, nullptr},
                                  {"__module__", get_module, nullptr, nullptr, nullptr},
                                  {"__doc__", get_doc, nullptr, nullptr, nullptr},
                                  {"__signatures__", get_signatures, nullptr, nullptr, nullptr},
                                  {"__signature__", get_signature, nullptr, nullptr, nullptr},
                                  {nullptr, nullptr, nullptr, nullptr, nullptr}};
  static PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
  std::vector<PyType_Slot> slots = {{Py_tp_members, members},
                                    {Py_tp_getset, getters},
                                    {Py_tp_methods, methods},
                                    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                    {Py_tp_repr, reinterpret_cast<void*>(describe)},
                                    {Py_tp_dealloc, reinterpret_cast<void*>(free_object)}};
  if (method) slots.push_back({Py_tp_descr_get, reinterpret_cast<void*>(bind_to)});
  slots.push_back({0, nullptr});
  unsigned int flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
  if (method) flags |= Py_TPFLAGS_METHOD_DESCRIPTOR;
  PyType_Spec spec = {method ? "mica.Method" : "mica.Function", sizeof(FunctionObject), 0, flags,
                      slots.data()};
  PyObject* type = PyType_FromSpec(&spec);
  if (!type) nb::raise_python_error();
  return type;
}

/// The module of functions whose names have a dot: linalg.qr is mica.linalg.qr.
nb::module_ module_of(nb::module_& m, const std::string& name) {
  if (!nb::hasattr(m, name.c_str())) add_submodule(m, name.c_str());
  return nb::cast<nb::module_>(m.attr(name.c_str()));
}

/// Of each function whose results have names.
std::map<std::string_view, PyObject*>& named_results() {
  static std::map<std::string_view, PyObject*> types;
  return types;
}
PyObject* results_of(const Function& function) {
  const auto found = named_results().find(function.name);
  return found == named_results().end() ? nullptr : found->second;
}
void add_named_results(nb::module_& m) {
  nb::module_ scope = module_of(m, "linalg");
  for (const linalg::ResultNames& names : linalg::result_names()) {
    if (!nb::hasattr(scope, names.type)) {
      const nb::object fields =
          nb::cast(std::vector<std::string>(names.fields.begin(), names.fields.end()));
      scope.attr(names.type) =
          nb::module_::import_("collections")
              .attr("namedtuple")(names.type, fields, nb::arg("module") = "mica.linalg");
    }
    named_results()[names.function] = nb::object(scope.attr(names.type)).release().ptr();
  }
}

nb::object make_function(const Function& function, const char* name, const char* module,
                         bool method) {
  static PyObject* const types[] = {make_type(false), make_type(true)};
  auto* self = PyObject_New(FunctionObject, reinterpret_cast<PyTypeObject*>(types[method ? 1 : 0]));
  if (!self) nb::raise_python_error();
  self->vectorcall = vectorcall;
  self->function = &function;
  self->name = name;
  self->module = module;
  self->method = method;
  self->results = results_of(function);
  return nb::steal(reinterpret_cast<PyObject*>(self));
}

bool wants_gradient(const Tensor& x, const nb::args& args) {
  if (!grad_enabled()) return false;
  bool wanted = x.requires_grad();
  for (const nb::handle a : args) {
    const Tensor* t = tensor_or_null(a);
    wanted = wanted || (t && t->requires_grad());
  }
  return wanted;
}

/// x.name_(…) is x.name(…) written to x.
void add_in_place(nb::class_<Tensor>& tensor, const char* name) {
  static std::deque<std::string> names;  // which Python's objects point to
  const std::string& own = names.emplace_back(std::string(name) + "_");
  tensor.def(
      own.c_str(),
      [name](nb::handle_t<Tensor> self, const nb::args& args,
             const nb::kwargs& kwargs) -> nb::handle_t<Tensor> {
        const auto& destination = nb::cast<const Tensor&>(self);
        // Where it is recorded the method reads a copy: what it saves must stay.
        const nb::object source = wants_gradient(destination, args)
                                      ? nb::cast(without_gil([&] { return clone(destination); }))
                                      : nb::borrow(self);
        const auto result = nb::cast<Tensor>(source.attr(name)(*args, **kwargs));
        without_gil([&] { store(destination, result); });
        return self;
      },
      "Overwrites this tensor with what the method without _ gives for the same arguments; that "
      "must have its shape.");
}

void add_function(nb::module_& m, nb::module_& functional, const Function& f, const char* name) {
  if (const char* dot = std::strchr(name, '.')) {
    static std::deque<std::string> modules;  // which Python's objects point to
    const std::string& own = modules.emplace_back(name, dot);
    const std::string& full = modules.emplace_back("mica." + own);
    nb::setattr(module_of(m, own), dot + 1, make_function(f, dot + 1, full.c_str(), false));
    return;
  }
  auto tensor = nb::borrow<nb::class_<Tensor>>(nb::type<Tensor>());
  if (f.offer.module) nb::setattr(m, name, make_function(f, name, "mica", false));
  if (f.offer.functional)
    nb::setattr(functional, name, make_function(f, name, "mica.nn.functional", false));
  if (f.offer.method) nb::setattr(tensor, name, make_function(f, name, "mica", true));
  if (f.offer.in_place) add_in_place(tensor, name);
}

}  // namespace

nb::object function_object(const Function& function) {
  return make_function(function, function.name, "mica", false);
}

void bind_functions(nb::module_& m, nb::module_& functional) {
  m.attr("ValuesIndices") =
      nb::module_::import_("collections")
          .attr("namedtuple")("ValuesIndices", nb::make_tuple("values", "indices"));
  add_named_results(m);
  for (const Function& f : all_functions()) {
    add_function(m, functional, f, f.name);
    for (const char* second : f.second_names) add_function(m, functional, f, second);
  }
}

}  // namespace mica::python
