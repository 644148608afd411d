// Operators as functions: mica.*, methods of Tensor, and mica.nn.functional.
#include "mica/op/op_def.h"
#include "python/src/def.h"

namespace mica::python {
namespace {

/// Every operator and composite, for whoever wants to go through all of them.
nb::list list_ops() {
  nb::list list;
  const auto add_entry = [&](const char* name, bool composite, bool differentiable) {
    nb::dict entry;
    entry["name"] = name;
    entry["composite"] = composite;
    entry["differentiable"] = differentiable;
    list.append(entry);
  };
  for (const OpDef* op : all_ops()) add_entry(op->name, false, op->vjp != nullptr);
  for (const char* name : composite_ops()) add_entry(name, true, true);
  return list;
}

/// What can be asked of a tensor, as functions; the methods stand with the others of Tensor.
void bind_questions(Functions& m) {
  m.def(
      "is_tensor", [](nb::handle value) { return tensor_or_null(value) != nullptr; },
      nb::arg("obj").none());
  m.def("is_floating_point", [](const Tensor& x) { return is_floating(x.dtype()); }, "input"_a);
  m.def("numel", &Tensor::numel, "input"_a);
  m.def("clone", clone, "input"_a, ReleaseGil());
}

}  // namespace

void bind_ops(nb::module_& m) {
  Scope scope{
      {m}, {add_submodule(m, "functional")}, {nb::borrow<nb::class_<Tensor>>(nb::type<Tensor>())}};
  bind_creation(scope);
  bind_elementwise(scope);
  bind_activations(scope);
  bind_reductions(scope);
  bind_order(scope);
  bind_linear_algebra(scope);
  bind_convolutions(scope);
  bind_pooling(scope);
  bind_sampling(scope);
  bind_normalisation(scope);
  bind_losses(scope);
  bind_shapes(scope);
  bind_indexing(scope);
  bind_compositions(scope);
  bind_questions(scope.m);
  m.def("_ops", list_ops);
}

}  // namespace mica::python
