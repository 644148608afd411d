// How a module is called from Python, its hooks, and how the garbage collector looks into both.
#include <mutex>
#include <unordered_map>

#include "mica/core/scope.h"
#include "mica/nn/forward_hooks.h"
#include "python/src/callback.h"
#include "python/src/module_handle.h"
#include "python/src/values.h"

namespace mica::python {
namespace {

using nn::ForwardHooks;
using nn::ModuleImpl;

/// What a hook returned, for C++: one that stands before forward may return a tuple of arguments.
Values replacement(nb::handle value, const char* root) {
  if (nb::isinstance<nb::tuple>(value) && nb::len(value) == 1)
    return values_from(value[0], ValuesPath(root));
  return values_from(value, ValuesPath(root));
}

/// A hook as C++ calls it.
struct PythonHook {
  Shared function;
  bool with_kwargs = false;

  template <class... Output>
  Values operator()(const nn::Module& module, const Values& input, const Output&... output) const {
    const nb::gil_scoped_acquire acquire;
    const nb::object self = module_to_python(module);
    nb::dict named;
    const nb::tuple args = arguments_from(self.attr("forward"), input, named);
    if (with_kwargs)
      return replacement(function.get()(self, args, named, values_to_python(output)...),
                         "the result of a hook");
    return replacement(function.get()(self, args, values_to_python(output)...),
                       "the result of a hook");
  }
};

PythonHook python_hook(nb::handle function, bool with_kwargs) {
  if (!PyCallable_Check(function.ptr()))
    raise_type_error("nn.Module: expected a function as a hook, got {}", class_name(function));
  return {Shared(function), with_kwargs};
}

/// A hook as Python calls it, with what it returns: a Python one has all that the module was called
/// with.
template <class Hook, class... Output>
nb::object run(const Hook& hook, nb::handle self, const nb::tuple& args, const nb::dict& kwargs,
               const Output&... output) {
  if (const auto* python = hook.template target<PythonHook>()) {
    if (python->with_kwargs) return python->function.get()(self, args, kwargs, output...);
    return python->function.get()(self, args, output...);
  }
  const Values other = hook(module_from(self), values_from_arguments(args, ValuesPath("input")),
                            values_from(output, ValuesPath("output"))...);
  return values_to_python(other);
}

/// Whether a hook that was given the keyword arguments gave both back.
bool has_both(nb::handle result) {
  return nb::isinstance<nb::tuple>(result) && nb::len(result) == 2 &&
         nb::isinstance<nb::dict>(result[1]);
}

nb::object call_with_hooks(nb::handle self, nb::tuple args, nb::kwargs kwargs) {
  const std::shared_ptr<ForwardHooks> hooks = impl_of(self).forward_hooks();
  if (!hooks) return self.attr("forward")(*args, **kwargs);
  for (const auto& [id, hook] : hooks->copy_of(&ForwardHooks::before)) {
    const nb::object other = run(hook, self, args, kwargs);
    if (other.is_none()) continue;
    if (has_both(other)) {
      kwargs = nb::borrow<nb::kwargs>(other[1]);
      args = nb::tuple(other[0]);
      continue;
    }
    args = nb::isinstance<nb::tuple>(other) ? nb::tuple(other) : nb::make_tuple(other);
  }
  const auto after = hooks->copy_of(&ForwardHooks::after);
  auto next = after.begin();
  try {
    nb::object output = self.attr("forward")(*args, **kwargs);
    while (next != after.end()) {
      const nb::object other = run((next++)->second, self, args, kwargs, output);
      if (!other.is_none()) output = other;
    }
    return output;
  } catch (...) {
    nn::after_error(*hooks, next, after.end(), [&](const nn::ForwardHook& hook) {
      run(hook, self, args, kwargs, nb::none());
    });
    throw;
  }
}

/// For who watches: a module of Python may give what no Values are.
Values result_values(nb::handle result) {
  try {
    return values_from(result, ValuesPath("output"));
  } catch (const nb::builtin_exception&) {
    return {};
  }
}

nb::object call(nb::handle self, const nb::args& args, const nb::kwargs& kwargs) {
  const ModuleImpl& impl = impl_of(self);
  const ModuleScope scope(impl.registered_name());
  if (!impl.is_watched()) return self.attr("forward")(*args, **kwargs);
  nn::CallWatcher* watcher = nn::exchange_call_watcher(nullptr);
  nn::exchange_call_watcher(watcher);
  if (watcher) watcher->enter(impl);
  nb::object result = call_with_hooks(self, args, kwargs);
  if (watcher) watcher->leave(impl, result_values(result));
  return result;
}

// A child may hold its parent (self.parent = parent), and a hook its module: the collector has to
// see the C++ side's references. What other C++ code shares is not this object's alone, so it is
// left out.

bool is_alone(nb::handle self, const ModuleImpl& impl) {
  const bool inside = nb::inst_state(self).second;  // else made in C++, and the object shares it
  return inside || impl.weak_from_this().use_count() == 1;
}

int visit_parts(const ModuleImpl& impl, visitproc visit, void* arg) {
  for (const auto& [name, child] : impl.children()) {
    if (child.impl().use_count() > 1) continue;
    if (const auto* owner = std::get_deleter<PythonOwner>(child.impl())) {
      Py_VISIT(owner->object);
    } else if (const int stop = visit_parts(*child.impl(), visit, arg)) {
      return stop;
    }
  }
  int stop = 0;
  impl.visit_objects([&](void* object) {
    if (stop == 0) stop = visit(static_cast<PyObject*>(object), arg);
  });
  if (stop != 0) return stop;
  const std::shared_ptr<ForwardHooks> hooks = impl.forward_hooks();
  if (!hooks) return 0;
  const std::lock_guard lock(hooks->mutex);
  for (const auto& [id, hook] : hooks->before)
    if (const auto* python = hook.target<PythonHook>()) Py_VISIT(python->function.get().ptr());
  for (const auto& [id, hook] : hooks->after)
    if (const auto* python = hook.target<PythonHook>()) Py_VISIT(python->function.get().ptr());
  return 0;
}

/// Where objects of a class, or of one that Python derives from it, keep their attributes.
std::unordered_map<PyTypeObject*, Py_ssize_t>& dict_offsets() {
  static std::unordered_map<PyTypeObject*, Py_ssize_t> offsets;
  return offsets;
}
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (PyObject** dict = attributes_of(self)) Py_VISIT(*dict);
  if (!nb::inst_ready(self)) return 0;
  const ModuleImpl& impl = *nb::inst_ptr<ModuleImpl>(self);
  return is_alone(self, impl) ? visit_parts(impl, visit, arg) : 0;
}

void clear_hooks(const ModuleImpl& impl) {
  for (const auto& [name, child] : impl.children())
    if (child.impl().use_count() == 1 && !std::get_deleter<PythonOwner>(child.impl()))
      clear_hooks(*child.impl());
  const std::shared_ptr<ForwardHooks> hooks = impl.forward_hooks();
  if (!hooks) return;
  decltype(hooks->before) before;
  decltype(hooks->after) after;
  const std::lock_guard lock(hooks->mutex);
  before.swap(hooks->before);
  after.swap(hooks->after);
}

int clear(PyObject* self) {
  if (PyObject** dict = attributes_of(self)) Py_CLEAR(*dict);
  if (!nb::inst_ready(self)) return 0;
  const ModuleImpl& impl = *nb::inst_ptr<ModuleImpl>(self);
  if (is_alone(self, impl)) clear_hooks(impl);
  return 0;
}

}  // namespace

Values call_python(nb::handle self, const Values& inputs) {
  const nb::object result = call_with_values(self.attr("forward"), inputs);
  if (const Tensor* t = tensor_or_null(result)) return *t;
  return values_from(result, ValuesPath(class_name(self) + ".forward(…)"));
}

void note_attributes(nb::handle type) {
  dict_offsets()[reinterpret_cast<PyTypeObject*>(type.ptr())] =
      nb::cast<Py_ssize_t>(type.attr("__dictoffset__"));
}

PyObject** attributes_of(PyObject* self) {
  const auto& known = dict_offsets();
  for (PyTypeObject* type = Py_TYPE(self); type;
       type = static_cast<PyTypeObject*>(PyType_GetSlot(type, Py_tp_base)))
    if (const auto it = known.find(type); it != known.end())
      return reinterpret_cast<PyObject**>(reinterpret_cast<char*>(self) + it->second);
  return nullptr;
}

PyType_Slot module_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                              {Py_tp_clear, reinterpret_cast<void*>(clear)},
                              {0, nullptr}};

void copy_hooks(const ModuleImpl& from, ModuleImpl& to,
                const std::function<nb::object(nb::handle)>& copy_of) {
  const std::shared_ptr<ForwardHooks> source = from.forward_hooks();
  if (!source) return;
  ForwardHooks& hooks = to.make_forward_hooks();
  hooks.before = source->copy_of(&ForwardHooks::before);
  hooks.after = source->copy_of(&ForwardHooks::after);
  hooks.always = source->always;
  hooks.first = source->first;
  hooks.next = source->next;
  // Each module has a reference of its own: the collector counts them.
  const auto renew = [&](auto& hook) {
    if (const auto* python = hook.template target<PythonHook>())
      hook = PythonHook{Shared(copy_of(python->function.get())), python->with_kwargs};
  };
  for (auto& [id, hook] : hooks.before) renew(hook);
  for (auto& [id, hook] : hooks.after) renew(hook);
}

void bind_module_call(ModuleClass& module) {
  module.def("__call__", call);
  module.def(
      "register_forward_pre_hook",
      [](nb::handle self, nb::handle hook, bool prepend, bool with_kwargs) {
        return module_from(self).register_forward_pre_hook(python_hook(hook, with_kwargs), prepend);
      },
      "hook"_a, nb::kw_only(), "prepend"_a = false, "with_kwargs"_a = false,
      "Calls hook(module, args) before each forward; what it returns, a value or a tuple, takes "
      "the arguments' place, None leaves them. Returns a handle whose remove() takes the hook "
      "away.");
  module.def(
      "register_forward_hook",
      [](nb::handle self, nb::handle hook, bool prepend, bool with_kwargs, bool always_call) {
        return module_from(self).register_forward_hook(
            python_hook(hook, with_kwargs), {.prepend = prepend, .always_call = always_call});
      },
      "hook"_a, nb::kw_only(), "prepend"_a = false, "with_kwargs"_a = false,
      "always_call"_a = false,
      "Calls hook(module, args, output) after each forward; what it returns takes the output's "
      "place, None leaves it. With always_call also where the call raises, output being None then. "
      "Returns a handle whose remove() takes the hook away.");
}

}  // namespace mica::python
