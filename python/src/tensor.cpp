#include "mica/autograd/tape.h"
#include "python/src/callback.h"
#include "python/src/dlpack.h"

namespace mica::python {
namespace {

bool names_device(nb::handle value) {
  if (!nb::isinstance<nb::str>(value))
    return nb::isinstance<Device>(value) || PyLong_Check(value.ptr());
  const auto name = nb::cast<std::string>(value);
  return name == "cpu" || name == "null" || name.starts_with("cuda");
}

DType dtype_for_to(nb::handle value) {
  try {
    return parse_dtype(value);
  } catch (const DTypeError& e) {
    fail<DTypeError>("to: '{}' is no device (cpu, cuda, cuda:<index>, null), and {}",
                     nb::str(value).c_str(), e.what());
  }
}

/// t.to("cuda"), t.to(mica.float16), t.to("cuda", mica.float16), t.to(other), and by keyword.
Tensor to_python(const Tensor& t, const nb::args& args, nb::handle dtype, nb::handle device,
                 std::optional<MemoryFormat> format, bool copy, bool non_blocking) {
  TensorOptions options = parse_options(dtype, device, {t.dtype(), t.device()});
  for (const nb::handle a : args) {
    if (const Tensor* like = tensor_or_null(a)) {
      options = {like->dtype(), like->device()};
    } else if (names_device(a)) {
      options.device = parse_device(a);
    } else {
      options.dtype = dtype_for_to(a);
    }
  }
  return without_gil([&] {
    const Tensor moved = to(cast(t, options.dtype), options.device, {.non_blocking = non_blocking});
    const Tensor result = format ? contiguous(moved, *format) : moved;
    return copy && result.impl() == t.impl() ? clone(t) : result;
  });
}

/// What a result was made by, to be asked whether it is there.
struct GradFn {
  Ref<GradNode> node;
};

void set_data(const Tensor& t, const Tensor& value) {
  check(!t.is_traced() && !value.is_traced(),
        "data: a tensor cannot be given other memory while a function is captured; use copy_()");
  check(t.is_leaf(), "data: only a tensor that no recorded operation made can be given memory");
  const Tensor with = value.detach();
  TensorImpl& impl = *t.impl();
  impl.storage = with.storage();
  impl.spec = with.spec();
  impl.offset = with.offset();
}

/// Tensor(2, 3) is empty memory, Tensor([1, 2]) holds values; both of float32.
Tensor construct(const nb::args& args, nb::handle device) {
  const TensorOptions options = parse_options(nb::none(), device);
  if (args.size() == 1 && !PyLong_Check(args[0].ptr())) {
    if (const Tensor* t = tensor_or_null(args[0])) return t->detach();
    return tensor_from(args[0], nb::cast(options.dtype), nb::cast(options.device));
  }
  return without_gil(
      [&, shape = args.size() == 0 ? Dims{0} : parse_dims(args)] { return empty(shape, options); });
}

void bind_properties(nb::class_<Tensor>& tensor) {
  tensor.def_prop_ro("shape", &Tensor::shape, "The size of each axis.");
  tensor.def_prop_ro("strides", &Tensor::strides, "In elements.");
  tensor.def_prop_ro("ndim", &Tensor::rank, "The number of axes.");
  tensor.def_prop_ro("dtype", &Tensor::dtype, "The type of the elements.");
  tensor.def_prop_ro("device", &Tensor::device, "Where the memory is.");
  tensor.def_prop_ro("is_leaf", &Tensor::is_leaf, "Whether no recorded operation made it.");
  tensor.def_prop_rw(
      "requires_grad", &Tensor::requires_grad,
      [](const Tensor& t, bool value) { t.set_requires_grad(value); },
      "Whether backward computes a gradient for it.");
  tensor.def_prop_rw(
      "grad", [](const Tensor& t) { return or_none(t.grad()); },
      [](const Tensor& t, const std::optional<Tensor>& grad) { t.set_grad(or_undefined(grad)); },
      nb::for_setter(nb::arg("grad").none()),
      "What backward has added up for this tensor, of its shape; None before.");
  tensor.def_prop_ro(
      "T",
      [](const Tensor& t) {
        Dims axes;
        for (int i = t.rank() - 1; i >= 0; --i) axes.push_back(i);
        return permute(t, axes);
      },
      "All axes in opposite order.");
  tensor.def_prop_ro(
      "mT", [](const Tensor& t) { return transpose(t, -2, -1); }, "The last two axes exchanged.");
  tensor.def_prop_ro("mH", adjoint, "The conjugate of the last two axes exchanged.");
  tensor.def_prop_ro("H", adjoint, "The conjugate of the last two axes exchanged.");
  tensor.def_prop_ro("real", real, "The real part; of a real tensor itself.");
  tensor.def_prop_ro("imag", imag, "The imaginary part; of a real tensor zeros.");
  tensor.def_prop_rw("data", &Tensor::detach, set_data,
                     "The same memory without history. Assigned to, this tensor has the other's "
                     "memory from then on, and its shape, dtype and device.");
  tensor.def_prop_ro(
      "is_cpu", [](const Tensor& t) { return t.device().is_cpu(); },
      "Whether it is in the CPU's memory.");
  tensor.def_prop_ro(
      "grad_fn",
      [](const Tensor& t) -> nb::object {
        return t.is_leaf() ? nb::none() : nb::cast(GradFn{t.impl()->autograd->node});
      },
      "What made it, where that was recorded for gradients; else None.");
  tensor.def_prop_ro(
      "is_cuda", [](const Tensor& t) { return t.device().is_cuda(); },
      "Whether it is on a CUDA device.");
  tensor.def_prop_ro(
      "itemsize", [](const Tensor& t) { return size_of(t.dtype()); }, "Bytes of one element.");
  tensor.def_prop_ro(
      "nbytes", [](const Tensor& t) { return static_cast<size_t>(t.numel()) * size_of(t.dtype()); },
      "Bytes of all elements.");
}

void bind_memory(nb::class_<Tensor>& tensor) {
  tensor.def("contiguous", contiguous, "memory_format"_a = MemoryFormat::contiguous, ReleaseGil(),
             "Itself, or a copy whose elements lie in the order of the format.");
  tensor.def(
      "is_contiguous",
      [](const Tensor& t, MemoryFormat format) {
        return format == MemoryFormat::contiguous ? t.spec().is_contiguous()
                                                  : t.spec().is_channels_last_dense();
      },
      "memory_format"_a = MemoryFormat::contiguous,
      "Whether the elements lie in the order of the format, without gaps.");
  tensor.def(
      "clone",
      [](const Tensor& t, std::optional<MemoryFormat> format) {
        return format ? contiguous(clone(t), *format) : clone(t);
      },
      nb::kw_only(), "memory_format"_a = nb::none(), ReleaseGil(),
      "A copy that gradients pass through.");
  tensor.def("detach", &Tensor::detach, "The same memory without history.");
  tensor.def("element_size", [](const Tensor& t) { return size_of(t.dtype()); }, "In bytes.");
  tensor.def("storage_offset", &Tensor::offset, "In elements.");
  tensor.def(
      "data_ptr", [](const Tensor& t) { return reinterpret_cast<uintptr_t>(t.data()); },
      "The address of the first element.");
  const auto view = [](const Tensor& t, const Shape& shape) {
    const Tensor result = reshape(t, shape);
    check<ShapeError>(t.numel() == 0 || result.impl()->storage == t.impl()->storage,
                      "view: the strides of this tensor do not let it be seen as {}; use reshape()",
                      shape);
    return result;
  };
  tensor.def(
      "view",
      [view](const Tensor& t, const nb::args& shape) {
        return without_gil([&, s = parse_dims(shape)] { return view(t, s); });
      },
      "The same memory in another shape.");
  tensor.def(
      "view_as", [view](const Tensor& t, const Tensor& other) { return view(t, other.shape()); },
      "other"_a, ReleaseGil(), "The same memory in the shape of other.");
  tensor.def(
      "reshape_as", [](const Tensor& t, const Tensor& other) { return reshape(t, other.shape()); },
      "other"_a, ReleaseGil(), "reshape to the shape of other.");
  tensor.def(
      "expand_as", [](const Tensor& t, const Tensor& other) { return expand(t, other.shape()); },
      "other"_a, ReleaseGil(), "expand to the shape of other.");
  tensor.def(
      "type_as", [](const Tensor& t, const Tensor& other) { return cast(t, other.dtype()); },
      "other"_a, ReleaseGil(), "In the dtype of other.");
}

/// New tensors of a tensor's dtype and device.
void bind_new(nb::class_<Tensor>& tensor) {
  constexpr const char* kDoc =
      "As mica's function of that name, with this tensor's dtype and device unless others are "
      "named.";
  using Create = Tensor (*)(const Shape&, TensorOptions);
  for (const auto& [name, create] : {std::pair<const char*, Create>{"new_zeros", zeros},
                                     {"new_ones", ones},
                                     {"new_empty", empty}}) {
    tensor.def(
        name,
        [make = create](const Tensor& t, const nb::args& shape, nb::handle dtype,
                        nb::handle device) {
          const TensorOptions options = parse_options(dtype, device, {t.dtype(), t.device()});
          return without_gil([&, s = parse_dims(shape)] { return make(s, options); });
        },
        "shape"_a, nb::kw_only(), "dtype"_a = nb::none(), "device"_a = nb::none(), kDoc);
  }
  tensor.def(
      "new_full",
      [](const Tensor& t, const Dims& shape, Number value, nb::handle dtype, nb::handle device) {
        const TensorOptions options = parse_options(dtype, device, {t.dtype(), t.device()});
        return without_gil([&] { return full(shape, value, options); });
      },
      "shape"_a, "fill_value"_a, nb::kw_only(), "dtype"_a = nb::none(), "device"_a = nb::none(),
      kDoc);
  tensor.def(
      "new_tensor",
      [](const Tensor& t, nb::handle data, nb::handle dtype, nb::handle device) {
        const TensorOptions options = parse_options(dtype, device, {t.dtype(), t.device()});
        return tensor_from(data, nb::cast(options.dtype), nb::cast(options.device));
      },
      "data"_a, nb::kw_only(), "dtype"_a = nb::none(), "device"_a = nb::none(), kDoc);
}

/// Lets a result keep its gradient. The hook must not keep the tensor: the tensor's history holds
/// the hook.
void retain_grad(nb::handle self) {
  const Tensor& t = nb::cast<const Tensor&>(self);
  check(t.requires_grad(), "retain_grad: the tensor requires no gradient");
  if (t.is_leaf()) return;
  const nb::object reference = nb::steal(PyWeakref_NewRef(self.ptr(), nullptr));
  if (!reference.is_valid()) nb::raise_python_error();
  add_hook(t, [reference = Shared(reference)](const Tensor& gradient) {
    const nb::gil_scoped_acquire acquire;
    if (const nb::object alive = reference.get()(); !alive.is_none()) {
      const Tensor& result = nb::cast<const Tensor&>(alive);
      const Tensor before = result.grad();
      result.set_grad(before.defined() ? without_gil([&] { return add(before, gradient); })
                                       : gradient);
    }
    return Tensor();
  });
}

void bind_gradients(nb::class_<Tensor>& tensor) {
  tensor.def(
      "requires_grad_",
      [](Tensor& t, bool value) -> Tensor& {
        t.set_requires_grad(value);
        return t;
      },
      "requires_grad"_a = true, nb::rv_policy::reference,
      "Sets requires_grad and returns the tensor.");
  tensor.def(
      "detach_",
      [](Tensor& t) -> Tensor& {
        if (t.is_leaf()) {
          t.set_requires_grad(false);
        } else {
          t = t.detach();
        }
        return t;
      },
      nb::rv_policy::reference, "Forgets this tensor's history; it requires no gradient then.");
  tensor.def(
      "_become",
      [](Tensor& t, const Tensor& other) -> Tensor& {
        t = other;
        return t;
      },
      "other"_a, nb::rv_policy::reference, "This object stands for another tensor from then on.");
  tensor.def("retain_grad", retain_grad,
             "Backward also keeps the gradient of this result, in its .grad.");
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

void bind_methods(nb::class_<Tensor>& tensor) {
  constexpr const char* kSizeDoc = "The size of each axis, or of one.";
  constexpr const char* kStrideDoc = "Elements from one index to the next, of each axis or of one.";
  for (const char* name : {"numel", "nelement"})
    tensor.def(name, &Tensor::numel, "The number of elements.");
  for (const char* name : {"dim", "ndimension"})
    tensor.def(name, &Tensor::rank, "The number of axes.");
  tensor.def("size", [](const Tensor& t) { return t.shape(); }, kSizeDoc);
  tensor.def("size", &Tensor::size, "dim"_a, kSizeDoc);
  tensor.def("stride", [](const Tensor& t) { return t.strides(); }, kStrideDoc);
  tensor.def(
      "stride",
      [](const Tensor& t, int64_t dim) {
        return t.strides()[normalize_axis(dim, t.rank(), "stride")];
      },
      "dim"_a, kStrideDoc);
  tensor.def(
      "is_floating_point", [](const Tensor& t) { return is_floating(t.dtype()); },
      "Whether its dtype is a floating one.");
  tensor.def(
      "is_complex", [](const Tensor& t) { return is_complex(t.dtype()); },
      "Whether its dtype is a complex one.");
  tensor.def(
      "get_device", [](const Tensor& t) { return t.device().is_cuda() ? t.device().index : -1; },
      "The number of its CUDA device; -1 on the CPU.");

  tensor.def("to", to_python, "args"_a, nb::kw_only(), "dtype"_a = nb::none(),
             "device"_a = nb::none(), "memory_format"_a = nb::none(), "copy"_a = false,
             "non_blocking"_a = false,
             "Another device, dtype or memory format; itself where nothing changes.");
  constexpr std::pair<const char*, DType> kCasts[] = {
      {"double", DType::f64},    {"float", DType::f32}, {"half", DType::f16},
      {"bfloat16", DType::bf16}, {"long", DType::i64},  {"int", DType::i32},
      {"short", DType::i16},     {"char", DType::i8},   {"byte", DType::u8},
      {"bool", DType::boolean}};
  for (const auto& [name, dtype] : kCasts) {
    tensor.def(
        name, [to_dtype = dtype](const Tensor& t) { return cast(t, to_dtype); }, ReleaseGil(),
        "In that dtype; itself if it has it.");
  }
  tensor.def(
      "to_device",
      [](const Tensor& t, nb::handle device, nb::handle stream) {
        check<Unsupported>(stream.is_none(), "to_device: only stream=None is taken");
        return without_gil([&, d = parse_device(device)] { return to(t, d); });
      },
      "device"_a, nb::kw_only(), "stream"_a = nb::none(),
      "On another device; itself if it is there.");
  tensor.def(
      "cpu", [](const Tensor& t) { return to(t, Device::cpu()); }, ReleaseGil(),
      "In the CPU's memory; itself if it is there.");
  tensor.def(
      "cuda",
      [](const Tensor& t, nb::handle device, bool non_blocking) {
        const Device d = parse_device(device.is_none() ? nb::int_(0) : device);
        return without_gil([&] { return to(t, d, {.non_blocking = non_blocking}); });
      },
      "device"_a = nb::none(), "non_blocking"_a = false,
      "On a CUDA device; itself if it is there.");
}

}  // namespace

void bind_tensor(nb::module_& m) {
  std::vector<PyType_Slot> slots = gradient_slots();
  for (const PyType_Slot* slot = buffer_slots(); slot->slot != 0; ++slot) slots.push_back(*slot);
  slots.push_back({0, nullptr});
  nb::class_<Tensor> tensor(
      m, "Tensor", nb::is_weak_referenceable(), nb::type_slots(slots.data()),
      "An n-dimensional array on one device. Where a method's text says input, it is this "
      "tensor.");
  tensor.def(
      "__init__",
      [](Tensor* self, const nb::args& args, nb::handle device) {
        new (self) Tensor(construct(args, device));
      },
      "args"_a, nb::kw_only(), "device"_a = nb::none(),
      "Tensor(2, 3): memory of that shape, not initialised; Tensor([1, 2]): these values. Of "
      "float32; tensor() takes the values' own dtype.");
  nb::class_<GradFn>(m, "_GradFn", "What a result was made by.")
      .def(
          "name", [](const GradFn& f) { return std::string(f.node->name()); }, "The operator.")
      .def("__repr__",
           [](const GradFn& f) { return fmt::format("<{} of the tape>", f.node->name()); });
  bind_properties(tensor);
  bind_memory(tensor);
  bind_methods(tensor);
  bind_new(tensor);
  bind_gradients(tensor);
  bind_operators(tensor);
  bind_writes(tensor);
  bind_indexing_methods(tensor);
  bind_protocols(tensor);
  bind_arrays(m, tensor);
}

}  // namespace mica::python
