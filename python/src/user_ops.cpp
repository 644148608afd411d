// Operators from Python, and those of libraries: mica.op, mica.load_ops, mica.testing.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include <filesystem>

#include "mica/custom/load_ops.h"
#include "mica/custom/user_op.h"
#include "mica/op/dispatch.h"
#include "mica/op/guarded_run.h"
#include "mica/op/op_table.h"
#include "mica/op/settings.h"
#include "python/src/callback.h"
#include "python/src/custom.h"

namespace mica::python {
namespace {

/// An operator from Python, or one of a library, by its definition.
struct OpHandle {
  const OpDef* op;
};

nb::object values_of(const UserValues& values) {
  const void* object = values.object();
  return object ? nb::borrow(static_cast<const Shared*>(object)->get()) : nb::make_tuple();
}

nb::list specs_of(std::span<const TensorSpec> specs) {
  nb::list all;
  for (const TensorSpec& s : specs) all.append(s.defined ? nb::cast(s) : nb::none());
  return all;
}

DTypeSet dtypes_from(const std::vector<nb::object>& list) {
  check<DTypeError>(!list.empty() && list.size() <= kDTypes, "op: expected 1 to {} dtypes, got {}",
                    kDTypes, list.size());
  std::string words = "one of";
  std::array<DType, kDTypes> t;
  t.fill(parse_dtype(list[0]));
  for (size_t i = 0; i < list.size(); ++i) {
    t[i] = parse_dtype(list[i]);
    words += (i == 0 ? " " : ", ") + std::string(name_of(t[i]));
  }
  const char* const kept = (new std::string(words))->c_str();  // as long as the op: forever
  return {{t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8], t[9], t[10], t[11], t[12], t[13],
           t[14]},
          kept};
}

Precision precision_from(const std::string& name) {
  for (const Precision p : {Precision::any, Precision::low, Precision::f32, Precision::widest})
    if (name == name_of(p)) return p;
  fail<Unsupported>("op: precision must be any, low, f32 or widest, got '{}'", name);
}

DeviceKind device_kind_from(const std::string& name) {
  if (name == "cpu") return DeviceKind::cpu;
  if (name == "cuda") return DeviceKind::cuda;
  fail<DeviceError>("op: a kernel is for 'cpu' or 'cuda', got '{}'", name);
}

using NamedSlot = std::tuple<std::string, bool, bool>;  // name, optional, images

std::vector<Slot> slots_from(const std::vector<NamedSlot>& named) {
  std::vector<Slot> slots;
  for (const auto& [name, optional, images] : named)
    slots.push_back({name, optional, images ? Format::images : Format::none});
  return slots;
}

OpHandle make_op(const std::string& name, const std::vector<NamedSlot>& inputs,
                 const std::vector<NamedSlot>& outputs, std::vector<bool> written,
                 const std::optional<std::vector<nb::object>>& dtypes, const std::string& precision,
                 nb::handle infer) {
  UserOp op;
  op.name = name;
  op.in = slots_from(inputs);
  op.out = slots_from(outputs);
  op.written = std::move(written);
  if (dtypes) op.dtypes = dtypes_from(*dtypes);
  op.precision = precision_from(precision);
  op.no_gradient = "op.gradient was not given one";
  op.infer = [rule = Shared(infer)](const UserValues& values, std::span<const TensorSpec> in,
                                    OutSpecs& out) {
    const nb::gil_scoped_acquire acquire;
    const nb::object specs = rule.get()(values_of(values), specs_of(in));
    for (const nb::handle entry : nb::cast<nb::list>(specs)) {
      const auto pair = nb::cast<nb::tuple>(entry);
      out.add(nb::cast<Dims>(pair[0]), parse_dtype(pair[1]));
    }
  };
  return {&register_user_op(std::move(op))};
}

void give_kernel(const OpHandle& self, const std::string& device, const std::string& name,
                 const std::optional<std::vector<nb::object>>& dtypes, nb::handle function) {
  UserOpKernel kernel;
  kernel.name = name;
  if (dtypes) kernel.dtypes = dtypes_from(*dtypes);
  kernel.run = [call = Shared(function)](const UserValues& values, const Tensors& in,
                                         const Tensors& out) {
    const nb::gil_scoped_acquire acquire;
    call.get()(values_of(values), to_tuple(in), to_tuple(out));
  };
  add_kernel(*self.op, device_kind_from(device), std::move(kernel));
}

void give_gradient(const OpHandle& self, nb::handle function, const std::vector<int>& saved_inputs,
                   const std::vector<int>& saved_outputs) {
  set_gradient(*self.op,
               [call = Shared(function), op = self.op](const UserValues& values, const VjpArgs& a) {
                 const nb::gil_scoped_acquire acquire;
                 Tensors grad(a.grad.begin(), a.grad.end());
                 nb::list needs;
                 for (size_t i = 0; i < a.in_specs.size(); ++i)
                   needs.append(a.needs(static_cast<int>(i)));
                 const nb::object result = call.get()(
                     values_of(values), to_tuple(grad), to_tuple(Tensors(a.in.begin(), a.in.end())),
                     to_tuple(Tensors(a.out.begin(), a.out.end())), needs, specs_of(a.out_specs));
                 Tensors gradients;
                 for (const nb::handle g : nb::cast<nb::list>(result)) {
                   if (!g.is_none() && !nb::isinstance<Tensor>(g))
                     raise_type_error("{}: its gradient must give tensors or None, got {}",
                                      op->name, class_name(g));
                   gradients.push_back(g.is_none() ? Tensor() : nb::cast<Tensor>(g));
                 }
                 return gradients;
               },
               {saved_inputs.begin(), saved_inputs.end()},
               {saved_outputs.begin(), saved_outputs.end()});
}

nb::object call_op(const OpHandle& self, nb::handle tensors, const std::string& text,
                   nb::handle values) {
  Tensors in;
  for (const nb::handle t : nb::cast<nb::tuple>(tensors))
    in.push_back(t.is_none() ? Tensor() : nb::cast<Tensor>(t));
  UserParams params;
  if (text != "()") params.values = UserValues(text, std::make_shared<Shared>(values));
  const Outputs out = without_gil([&] { return dispatch(*self.op, params, in); });
  const Tensors all(out.span().begin(), out.span().end());
  if (all.empty()) return nb::none();
  return result_object(all, all.size() == 1);
}

std::vector<std::string> kernel_names(const std::string& name, const std::string& device) {
  std::vector<std::string> names;
  for (const Kernel& k : find_op(name).kernels[static_cast<size_t>(device_kind_from(device))])
    names.emplace_back(k.name);
  return names;
}

/// The function's result, and what its kernels did that they must not.
nb::tuple guarded(nb::handle function) {
  GuardedRun run;
  const nb::object result = function();
  return nb::make_tuple(result, run.faults);
}

nb::tuple load(nb::handle path) {
  const auto text = nb::cast<std::string>(nb::str(nb::module_::import_("os").attr("fspath")(path)));
  const OpRegistry& registry = without_gil([&]() -> const OpRegistry& { return load_ops(text); });
  nb::list ops;
  nb::dict functions;
  for (const OpDef* op : registry.ops) ops.append(op->name);
  for (const Function* f : registry.functions) functions[f->name] = function_object(*f);
  return nb::make_tuple(ops, functions);
}

}  // namespace

void bind_user_ops(nb::module_& m) {
  nb::class_<TensorSpec>(m, "_TensorSpec", "What is known of a tensor before it has values.")
      .def_prop_ro(
          "shape", [](const TensorSpec& s) { return s.shape; }, "Its sizes.")
      .def_prop_ro("ndim", &TensorSpec::rank, "How many axes it has.")
      .def_prop_ro(
          "dtype", [](const TensorSpec& s) { return s.dtype; }, "Of its elements.")
      .def_prop_ro(
          "device", [](const TensorSpec& s) { return s.device; }, "Where it lies.")
      .def("numel", &TensorSpec::numel, "How many elements it has.")
      .def("__repr__", [](const TensorSpec& s) { return to_string(s); });
  nb::class_<OpHandle>(m, "_OpHandle")
      .def("add_kernel", give_kernel, "device"_a, "name"_a, "dtypes"_a.none(), "function"_a)
      .def("set_gradient", give_gradient, "function"_a, "saved_inputs"_a, "saved_outputs"_a)
      .def("call", call_op, "tensors"_a, "text"_a, "values"_a);
  m.def("_make_op", make_op, "name"_a, "inputs"_a, "outputs"_a, "written"_a, "dtypes"_a.none(),
        "precision"_a, "infer"_a);
  m.def("_kernel_names", kernel_names, "op"_a, "device"_a);
  m.def("_guarded", guarded, "function"_a);
  m.def("_load_ops", load, "path"_a);
  m.def(
      "_describe_ops",
      [](bool json) { return describe_ops(json ? OpsFormat::json : OpsFormat::table); }, "json"_a);
}

}  // namespace mica::python
