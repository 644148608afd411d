#include "python/src/bindings.h"

namespace mica::python {
namespace {

nb::object item(const Tensor& t) {
  if (t.dtype() == DType::i64) {
    check<ShapeError>(t.numel() == 1, "item: expected one element, got shape {}", t.shape());
    return nb::cast(without_gil([&] { return t.to_vector<int64_t>()[0]; }));
  }
  const double value = without_gil([&] { return t.item(); });
  if (t.dtype() == DType::boolean) return nb::cast(value != 0);
  return is_floating(t.dtype()) ? nb::cast(value) : nb::cast(static_cast<int64_t>(value));
}

bool names_device(nb::handle value) {
  if (!nb::isinstance<nb::str>(value))
    return nb::isinstance<Device>(value) || PyLong_Check(value.ptr());
  const auto name = nb::cast<std::string>(value);
  return name == "cpu" || name == "null" || name.starts_with("cuda");
}

/// t.to("cuda"), t.to(mica.float16), t.to("cuda", mica.float16), and by keyword.
Tensor to_python(const Tensor& t, const nb::args& args, nb::handle dtype, nb::handle device,
                 std::optional<MemoryFormat> format) {
  TensorOptions options = parse_options(dtype, device, {t.dtype(), t.device()});
  for (const nb::handle a : args) {
    if (names_device(a)) {
      options.device = parse_device(a);
    } else {
      options.dtype = parse_dtype(a);
    }
  }
  return without_gil([&] {
    const Tensor moved = to(cast(t, options.dtype), options.device);
    return format ? contiguous(moved, *format) : moved;
  });
}

void bind_properties(nb::class_<Tensor>& tensor) {
  tensor.def_prop_ro("shape", &Tensor::shape);
  tensor.def_prop_ro("strides", &Tensor::strides, "In elements.");
  tensor.def_prop_ro("ndim", &Tensor::rank);
  tensor.def_prop_ro("dtype", &Tensor::dtype);
  tensor.def_prop_ro("device", &Tensor::device);
  tensor.def_prop_ro("is_leaf", &Tensor::is_leaf);
  tensor.def_prop_rw("requires_grad", &Tensor::requires_grad,
                     [](const Tensor& t, bool value) { t.set_requires_grad(value); });
  tensor.def_prop_rw(
      "grad", [](const Tensor& t) { return or_none(t.grad()); },
      [](const Tensor& t, const std::optional<Tensor>& grad) { t.set_grad(or_undefined(grad)); },
      nb::for_setter(nb::arg("grad").none()));
  tensor.def_prop_ro("T", [](const Tensor& t) {
    Dims axes;
    for (int i = t.rank() - 1; i >= 0; --i) axes.push_back(i);
    return permute(t, axes);
  });
}

void bind_memory(nb::class_<Tensor>& tensor) {
  tensor.def("contiguous", contiguous, "memory_format"_a = MemoryFormat::contiguous, ReleaseGil());
  tensor.def(
      "is_contiguous",
      [](const Tensor& t, MemoryFormat format) {
        return format == MemoryFormat::contiguous ? t.spec().is_contiguous()
                                                  : t.spec().is_channels_last_dense();
      },
      "memory_format"_a = MemoryFormat::contiguous);
  tensor.def("clone", clone, ReleaseGil());
  tensor.def("detach", &Tensor::detach, "The same memory without history.");
}

void bind_methods(nb::class_<Tensor>& tensor) {
  tensor.def("item", item, "The value of a one-element tensor as a Python number.");
  tensor.def("__float__", [](const Tensor& t) { return nb::float_(item(t)); });
  tensor.def("__int__", [](const Tensor& t) { return nb::int_(item(t)); });
  tensor.def("__bool__",
             [](const Tensor& t) { return nb::cast<double>(nb::float_(item(t))) != 0; });
  tensor.def("numel", &Tensor::numel);
  tensor.def("size", [](const Tensor& t) { return t.shape(); });
  tensor.def("size", &Tensor::size, "dim"_a);
  tensor.def("stride", [](const Tensor& t) { return t.strides(); }, "In elements.");
  tensor.def("__repr__", [](const Tensor& t) { return without_gil([&] { return to_string(t); }); });

  tensor.def("to", to_python, "args"_a, nb::kw_only(), "dtype"_a = nb::none(),
             "device"_a = nb::none(), "memory_format"_a = nb::none(),
             "Another device, dtype or memory format; itself where nothing changes.");
  constexpr std::pair<const char*, DType> kCasts[] = {
      {"double", DType::f64},    {"float", DType::f32},   {"half", DType::f16},
      {"bfloat16", DType::bf16}, {"long", DType::i64},    {"int", DType::i32},
      {"byte", DType::u8},       {"bool", DType::boolean}};
  for (const auto& [name, dtype] : kCasts) {
    tensor.def(
        name, [to_dtype = dtype](const Tensor& t) { return cast(t, to_dtype); }, ReleaseGil());
  }
  tensor.def("cpu", [](const Tensor& t) { return to(t, Device::cpu()); }, ReleaseGil());
  tensor.def(
      "cuda", [](const Tensor& t, int index) { return to(t, Device::cuda(index)); }, "index"_a = 0,
      ReleaseGil());

  tensor.def(
      "backward",
      [](const Tensor& t, const std::optional<Tensor>& gradient, bool retain_graph,
         bool create_graph) {
        backward({t}, {or_undefined(gradient)}, {retain_graph, create_graph});
      },
      "gradient"_a = nb::none(), "retain_graph"_a = false, "create_graph"_a = false, ReleaseGil(),
      "Accumulates gradients into the leaves this tensor was computed from. `gradient` is this "
      "tensor's own; it may be "
      "left out for one element.");
}

}  // namespace

void bind_tensor(nb::module_& m) {
  nb::class_<Tensor> tensor(m, "Tensor", nb::is_weak_referenceable(),
                            "An n-dimensional array on one device.");
  bind_properties(tensor);
  bind_memory(tensor);
  bind_methods(tensor);
  bind_operators(tensor);
  bind_arrays(m, tensor);
}

}  // namespace mica::python
