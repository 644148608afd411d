// Hooks on gradients, and what the garbage collector has to know of them.
#include <utility>
#include <vector>

#include "mica/autograd/tape.h"
#include "python/src/bindings.h"
#include "python/src/callback.h"
#include "python/src/module_handle.h"

namespace mica::python {
namespace {

struct PythonGradHook {
  Shared function;
  Tensor operator()(const Tensor& gradient) const {
    const nb::gil_scoped_acquire acquire;
    const nb::object result = function.get()(gradient);
    return result.is_none() ? Tensor() : nb::cast<Tensor>(result);
  }
};
struct PythonAfterHook {
  Shared function;
  void operator()(const Tensor& leaf) const {
    const nb::gil_scoped_acquire acquire;
    function.get()(leaf);
  }
};

int visit_hooks(const GradHooks* hooks, visitproc visit, void* arg) {
  if (!hooks) return 0;
  for (const GradHooks::Replace& hook : hooks->replace)
    if (const auto* python = hook.call.target<PythonGradHook>())
      Py_VISIT(python->function.get().ptr());
  for (const GradHooks::After& hook : hooks->after)
    if (const auto* python = hook.call.target<PythonAfterHook>())
      Py_VISIT(python->function.get().ptr());
  return 0;
}

/// The gradient state that belongs to this object alone; null where others share it. What other
/// C++ code holds is not this object's, and then its hooks are left out.
AutogradMeta* own_state(PyObject* self) {
  if (!nb::inst_ready(self)) return nullptr;
  const TensorImpl* impl = nb::inst_ptr<Tensor>(self)->impl();
  if (!impl || !impl->autograd) return nullptr;
  const int own = impl->autograd->object == self ? 2 : 1;  // see Parameter::noted
  return impl->use_count() == own ? impl->autograd.get() : nullptr;
}
GradNode* own_node(const AutogradMeta& state) {
  return state.node && state.node->use_count() == 1 ? state.node.get() : nullptr;
}

/// A hook may hold its tensor: the collector has to see that the tensor holds the hook.
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (PyObject** dict = attributes_of(self)) Py_VISIT(*dict);
  const AutogradMeta* state = own_state(self);
  if (!state) return 0;
  if (const int stop = visit_hooks(state->hooks.get(), visit, arg)) return stop;
  if (const GradNode* node = own_node(*state))
    for (size_t i = 0; i < node->outputs(); ++i)
      if (const int stop = visit_hooks(node->hooks(i), visit, arg)) return stop;
  return 0;
}

int clear(PyObject* self) {
  if (PyObject** dict = attributes_of(self)) Py_CLEAR(*dict);
  AutogradMeta* state = own_state(self);
  if (!state) return 0;
  GradHooks gone;  // let go of last: what that runs may ask for this tensor
  if (state->hooks) gone = std::exchange(*state->hooks, {});
  std::vector<GradHooks> more;
  if (GradNode* node = own_node(*state))
    for (size_t i = 0; i < node->outputs(); ++i)
      if (node->hooks(i)) more.push_back(std::exchange(*node->make_hooks(i), {}));
  return 0;
}

}  // namespace

std::vector<PyType_Slot> gradient_slots() {
  return {{Py_tp_traverse, reinterpret_cast<void*>(traverse)},
          {Py_tp_clear, reinterpret_cast<void*>(clear)}};
}

void bind_hooks() {
  auto tensor = nb::borrow<nb::class_<Tensor>>(nb::type<Tensor>());
  tensor.def(
      "register_hook",
      [](const Tensor& t, nb::handle hook) { return add_hook(t, PythonGradHook{Shared(hook)}); },
      "hook"_a,
      "Calls hook(grad) whenever the gradient of this tensor is there; what it returns takes the "
      "gradient's place, None leaves it. Returns a handle whose remove() takes the hook away.");
  tensor.def(
      "register_post_accumulate_grad_hook",
      [](const Tensor& t, nb::handle hook) {
        return add_post_accumulate_hook(t, PythonAfterHook{Shared(hook)});
      },
      "hook"_a, "Calls hook(tensor) after backward() has added to its .grad.");
}

}  // namespace mica::python
