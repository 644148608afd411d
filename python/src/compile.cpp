#include <map>
#include <mutex>

#include "python/src/bindings.h"

namespace mica::python {
namespace {

/// What a function returned: a tensor, None, or a tuple or list of such; the tensors stand in one
/// flat list.
struct Structure {
  enum class Kind : uint8_t { tensor, none, tuple, list } kind = Kind::none;
  std::vector<Structure> children;
};

Structure flatten_result(nb::handle value, Tensors& tensors) {
  if (value.is_none()) return {};
  if (nb::isinstance<Tensor>(value)) {
    tensors.push_back(nb::cast<Tensor>(value));
    return {Structure::Kind::tensor, {}};
  }
  const bool is_tuple = PyTuple_Check(value.ptr());
  if (!is_tuple && !PyList_Check(value.ptr())) {
    raise_type_error(
        "compile: the function must return tensors, tuples or lists of them, or None; got {}",
        class_name(value));
  }
  Structure result{is_tuple ? Structure::Kind::tuple : Structure::Kind::list, {}};
  for (const nb::handle child : nb::iter(value))
    result.children.push_back(flatten_result(child, tensors));
  return result;
}

nb::object unflatten_result(const Structure& structure, std::span<const Tensor>& tensors) {
  if (structure.kind == Structure::Kind::none) return nb::none();
  if (structure.kind == Structure::Kind::tensor) {
    nb::object t = nb::cast(tensors.front());
    tensors = tensors.subspan(1);
    return t;
  }
  nb::list list;
  for (const Structure& child : structure.children) list.append(unflatten_result(child, tensors));
  return structure.kind == Structure::Kind::list ? nb::object(list) : nb::object(nb::tuple(list));
}

/// A Python function that is captured once per input specs and replayed.
class PythonCompiled {
  /// What f says of the last call, which another thread's does not replace meanwhile.
  template <class F>
  auto with_last(F f) const {
    const nb::gil_scoped_release release;
    const std::lock_guard lock(mutex_);
    return f(compiled_);
  }

 public:
  explicit PythonCompiled(nb::object function)
      : function_(std::move(function)),
        compiled_([this](std::span<const Tensor> in) { return capture(in); }) {}

  nb::object call(const nb::args& args) { return run(args, 1); }
  nb::object repeat(int times) { return run(nb::steal<nb::args>(PyTuple_New(0)), times); }

  nb::object run(const nb::args& args, int times) {
    Tensors in;
    for (const nb::handle a : args) {
      if (!nb::isinstance<Tensor>(a)) {
        raise_type_error(
            "compile: argument {} must be a tensor, got {}; other values can be closed over",
            in.size() + 1, class_name(a));
      }
      in.push_back(nb::cast<Tensor>(a));
    }
    Tensors out;
    Structure structure;
    {
      const nb::gil_scoped_release release;
      // Recursive: while this is captured, its body may call itself.
      const std::lock_guard lock(mutex_);
      captured_ = false;
      out = compiled_(in, times);
      if (captured_) structures_[compiled_.plan()] = last_structure_;
      structure = captured_ ? last_structure_ : structures_.at(compiled_.plan());
    }
    std::span<const Tensor> rest(out);
    return unflatten_result(structure, rest);
  }

  const nb::object& function() const { return function_; }
  int captures() const {
    return with_last([](const CompiledFunction& c) { return c.captures(); });
  }
  std::vector<std::string> kernels() const {
    return with_last([](const CompiledFunction& c) {
      return c.plan() ? c.plan()->kernels() : std::vector<std::string>();
    });
  }
  bool is_one_launch() const {
    return with_last(
        [](const CompiledFunction& c) { return c.plan() && c.plan()->is_one_launch(); });
  }

  // The function may hold this object, through a module's globals for one: the collector has to see
  // it.
  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!nb::inst_ready(self)) return 0;
    Py_VISIT(nb::inst_ptr<PythonCompiled>(self)->function_.ptr());
    return 0;
  }
  static int clear(PyObject* self) {
    nb::inst_ptr<PythonCompiled>(self)->function_.reset();
    return 0;
  }

 private:
  Tensors capture(std::span<const Tensor> in) {
    const nb::gil_scoped_acquire acquire;
    nb::list arguments;
    for (const Tensor& t : in) arguments.append(nb::cast(t));
    Tensors out;
    last_structure_ = flatten_result(function_(*arguments), out);
    captured_ = true;
    return out;
  }

  nb::object function_;
  CompiledFunction compiled_;
  mutable std::recursive_mutex mutex_;
  bool captured_ = false;
  Structure last_structure_;
  std::map<const Plan*, Structure> structures_;
};

PyType_Slot slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(PythonCompiled::traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(PythonCompiled::clear)},
                       {0, nullptr}};

}  // namespace

void bind_compile(nb::module_& m) {
  nb::class_<PythonCompiled>(m, "CompiledFunction", nb::type_slots(slots),
                             "What compile() returns.")
      .def(nb::init<nb::object>(), "function"_a)
      .def("__call__", &PythonCompiled::call, "args"_a)
      .def("repeat", &PythonCompiled::repeat, "times"_a,
           "Calls a function without arguments so many times; on a GPU by one launch.")
      .def_prop_ro("__wrapped__", &PythonCompiled::function)
      // What else is asked of it is the function's: __name__, __qualname__, __module__.
      .def("__getattr__",
           [](const PythonCompiled& self, nb::handle name) { return self.function().attr(name); })
      .def_prop_ro("captures", &PythonCompiled::captures, "How often the function was captured.")
      .def_prop_ro("kernels", &PythonCompiled::kernels,
                   "The kernels of the last call, \"conv2d: onednn\", as often as they run.")
      .def_prop_ro("is_one_launch", &PythonCompiled::is_one_launch,
                   "Whether the last call was one CUDA graph.")
      .def("__repr__", shows({"__wrapped__", "captures"}));
  m.def(
      "compile", [](nb::handle function) { return nb::type<PythonCompiled>()(function); },
      "function"_a,
      R"(Captures a function of tensors at its first call and replays it from then on.

Forward pass, backward pass and update become one graph; on a GPU, one CUDA graph. The function takes
tensors and returns a tensor, a tuple or list of them, or None. It is captured again when shapes or
dtypes change. Use it as a decorator:

    @mica.compile
    def step(x, y):
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss)");
}

}  // namespace mica::python
