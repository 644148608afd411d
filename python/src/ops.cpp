// The functions that rooms describe, and what can be asked of them and of a tensor.
#include "mica/op/function.h"
#include "mica/op/op_def.h"
#include "python/src/bindings.h"

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

/// Every function as its room describes it.
nb::list list_functions() {
  nb::list list;
  for (const Function& f : all_functions()) {
    nb::list places;
    const std::string_view name = f.name;
    const size_t dot = name.find('.');  // linalg.qr is one of mica.linalg
    const std::string module =
        dot == name.npos ? "mica" : fmt::format("mica.{}", name.substr(0, dot));
    if (f.offer.module) places.append(module);
    if (f.offer.method) places.append("Tensor");
    if (f.offer.functional) places.append("mica.nn.functional");
    if (nb::len(places) == 0) places.append("mica.distributed");
    nb::dict entry;
    entry["name"] = f.name;
    entry["op"] = f.op ? f.op : f.name;
    entry["places"] = places;
    entry["in_place"] = f.offer.in_place;
    entry["second_names"] =
        nb::cast(std::vector<std::string>(f.second_names.begin(), f.second_names.end()));
    entry["precision"] = name_of(precision_of(f));
    const std::vector<Parameter>& parameters = f.signatures.front().parameters;
    entry["unary"] = f.signatures.size() == 1 && parameters.size() == 1 &&
                     parameters[0].kind == ParameterKind::tensor;
    list.append(entry);
  }
  return list;
}

}  // namespace

void bind_ops(nb::module_& m) {
  nb::module_ functional = add_submodule(m, "functional");
  bind_functions(m, functional);
  m.def(
      "is_tensor", [](nb::handle value) { return tensor_or_null(value) != nullptr; },
      nb::arg("obj").none(), "Whether obj is a tensor.");
  m.def(
      "is_floating_point", [](const Tensor& x) { return is_floating(x.dtype()); }, "input"_a,
      "Whether input's dtype is a floating one.");
  m.def(
      "is_complex", [](const Tensor& x) { return is_complex(x.dtype()); }, "input"_a,
      "Whether input's dtype is a complex one.");
  m.def("numel", &Tensor::numel, "input"_a, "The number of elements of input.");
  m.def("manual_seed", manual_seed, "seed"_a, ReleaseGil(),
        "Restarts every device's generator of random numbers.");
  m.def("_ops", list_ops);
  m.def("_functions", list_functions);
}

}  // namespace mica::python
