// Memory that is shared through Python's buffer protocol (CPU) and __cuda_array_interface__.
#include <nanobind/stl/pair.h>

#include <array>
#include <new>

#include "mica/runtime/cuda_library.h"
#include "python/src/dlpack.h"

namespace mica::python {
namespace {

/// What a view of the memory refers to.
struct View {
  Tensor tensor;
  std::array<Py_ssize_t, Dims::kMaxRank> shape{};
  std::array<Py_ssize_t, Dims::kMaxRank> strides{};  ///< in bytes
};

/// Why the memory of a tensor cannot be seen as a buffer; empty when it can.
std::string refusal(const Tensor& t, int flags) {
  if (t.is_traced() || t.device().is_null()) return "the tensor has no values";
  if (!t.device().is_cpu())
    return fmt::format("the tensor is on {}; call .cpu() first", to_string(t.device()));
  if (t.requires_grad())
    return "the tensor requires a gradient, which would be lost; call .detach() first";
  if (!info_of(t.dtype()).format)
    return fmt::format("{} has no buffer format; convert to float32 first", python_name(t.dtype()));
  const auto asks = [flags](int bits) { return (flags & bits) == bits; };
  const bool wants_rows =
      !asks(PyBUF_STRIDES) || asks(PyBUF_C_CONTIGUOUS) || asks(PyBUF_ANY_CONTIGUOUS);
  const bool rows = t.spec().is_contiguous();
  if (wants_rows && !rows) return "the tensor is not contiguous";
  if (asks(PyBUF_F_CONTIGUOUS) && t.rank() > 1)
    return "the tensor is not contiguous in Fortran's order";
  return {};
}

int get_buffer(PyObject* self, Py_buffer* out, int flags) noexcept {
  out->obj = nullptr;
  const Tensor* t = tensor_or_null(self);
  const std::string why = t ? refusal(*t, flags) : "no tensor";
  if (!why.empty()) {
    PyErr_SetString(PyExc_BufferError, why.c_str());
    return -1;
  }
  t->storage()->hand_out();
  auto* view = new (std::nothrow) View{*t};
  if (!view) {
    PyErr_NoMemory();
    return -1;
  }
  const auto size = static_cast<Py_ssize_t>(size_of(t->dtype()));
  for (int i = 0; i < t->rank(); ++i) {
    view->shape[static_cast<size_t>(i)] = t->shape()[i];
    view->strides[static_cast<size_t>(i)] = t->strides()[i] * size;
  }
  out->buf = t->data();
  out->len = t->numel() * size;
  out->readonly = 0;
  out->itemsize = size;
  out->format =
      (flags & PyBUF_FORMAT) != 0 ? const_cast<char*>(info_of(t->dtype()).format) : nullptr;
  out->ndim = t->rank();
  out->shape = (flags & PyBUF_ND) != 0 ? view->shape.data() : nullptr;
  out->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? view->strides.data() : nullptr;
  out->suboffsets = nullptr;
  out->internal = view;
  out->obj = nb::handle(self).inc_ref().ptr();
  return 0;
}

void release_buffer(PyObject*, Py_buffer* buffer) noexcept {
  delete static_cast<View*>(buffer->internal);
}

/// Version 3. Only tensors on CUDA have the attribute.
nb::object cuda_array_interface(const Tensor& t) {
  const char* typestr = info_of(t.dtype()).typestr;
  if (!t.device().is_cuda() || !typestr)
    throw nb::attribute_error(fmt::format("__cuda_array_interface__: {} is {}",
                                          typestr ? "the tensor" : python_name(t.dtype()),
                                          typestr ? "not on CUDA" : "no type of this interface")
                                  .c_str());
  check_shareable(t, "__cuda_array_interface__");
  t.storage()->hand_out();
  const int index = t.device().index;
  const CudaLibrary& cuda = cuda_library();
  nb::list strides;
  for (const int64_t s : t.strides()) strides.append(s * static_cast<int64_t>(size_of(t.dtype())));
  nb::dict d;
  d["version"] = 3;
  d["shape"] = nb::cast(t.shape());
  d["typestr"] = typestr;
  d["data"] = nb::make_tuple(reinterpret_cast<uintptr_t>(t.data()), false);
  d["strides"] = t.spec().is_contiguous() ? nb::object(nb::none()) : nb::object(nb::tuple(strides));
  // The consumer's work waits for this stream.
  d["stream"] = reinterpret_cast<uintptr_t>(cuda.current_stream(index));
  cuda.record_use(index, t.storage()->data(), cuda_default_stream());
  return d;
}

DType dtype_of_typestr(const std::string& typestr) {
  for (const DTypeInfo& i : kDTypeTable)
    if (i.typestr && typestr.size() > 1 && typestr.substr(1) == i.typestr + 1 && typestr[0] != '>')
      return i.dtype;
  fail<DTypeError>("an array of type {} has no tensor dtype; convert it first", typestr);
}

}  // namespace

Tensor from_cuda_array_interface(nb::handle object) {
  nb::dict d;
  std::pair<uintptr_t, bool> pointer;
  ForeignArray array;
  std::string typestr;
  if (!nb::try_cast(object.attr("__cuda_array_interface__"), d) ||
      !nb::try_cast(d.attr("get")("data"), pointer) ||
      !nb::try_cast(d.attr("get")("typestr"), typestr) ||
      !nb::try_cast(d.attr("get")("shape"), array.shape))
    raise_type_error(
        "from_dlpack: __cuda_array_interface__ of this {} lacks data, typestr or shape",
        class_name(object));
  if (pointer.second)
    raise_buffer_error("from_dlpack: this memory is read-only; copy it with mica.tensor");
  check<Unsupported>(d.attr("get")("mask").is_none(),
                     "from_dlpack: an array with a mask cannot be shared");
  array.data = reinterpret_cast<void*>(pointer.first);
  array.device = Device::cuda(0);
  if (nb::hasattr(object, "device") && nb::hasattr(object.attr("device"), "id"))
    array.device = Device::cuda(nb::cast<int>(object.attr("device").attr("id")));
  array.dtype = dtype_of_typestr(typestr);
  if (const nb::object strides = d.attr("get")("strides"); !strides.is_none()) {
    const auto size = static_cast<int64_t>(size_of(array.dtype));
    for (const int64_t bytes : nb::cast<std::vector<int64_t>>(strides)) {
      check<ShapeError>(bytes % size == 0,
                        "from_dlpack: a stride of {} bytes lies between elements", bytes);
      array.strides.push_back(bytes / size);
    }
    check<ShapeError>(array.strides.size() == array.shape.size(),
                      "from_dlpack: {} strides for {} axes", array.strides.size(),
                      array.shape.size());
  }
  const CudaLibrary& cuda = cuda_library();
  const int index = array.device.index;
  if (const nb::object stream = d.attr("get")("stream"); !stream.is_none()) {
    cuda.order_streams(index, reinterpret_cast<void*>(nb::cast<uintptr_t>(stream)),
                       cuda.current_stream(index));
  }
  const auto keep = [device = array.device](void* held) {
    if (!nb::is_alive()) return;
    let_owner_wait(device);
    const nb::gil_scoped_acquire acquire;
    nb::handle(static_cast<PyObject*>(held)).dec_ref();
  };
  return tensor_of("from_dlpack", array,
                   std::shared_ptr<void>(nb::borrow(object).release().ptr(), keep));
}

const PyType_Slot* buffer_slots() {
  static const PyType_Slot slots[] = {
      {Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)},
      {Py_bf_releasebuffer, reinterpret_cast<void*>(release_buffer)},
      {0, nullptr}};
  return slots;
}

void bind_cuda_array_interface(nb::class_<Tensor>& tensor) {
  tensor.def_prop_ro("__cuda_array_interface__", cuda_array_interface);
}

}  // namespace mica::python
