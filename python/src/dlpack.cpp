// Memory that is shared through DLPack, both ways.
#include "python/src/dlpack.h"

#include <nanobind/stl/pair.h>

#include "mica/runtime/cuda_library.h"

namespace mica::python {
namespace dlpack {

DataType data_type(DType t) { return {info_of(t).dlpack, static_cast<uint8_t>(8 * size_of(t)), 1}; }

DType dtype_of(DataType d) {
  for (const DTypeInfo& i : kDTypeTable)
    if (data_type(i.dtype) == d) return i.dtype;
  constexpr const char* kKinds[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  fail<DTypeError>(
      "an array of {}{}{} has no tensor dtype; convert it first, to float32 or int64 say",
      d.code < std::size(kKinds) ? kKinds[d.code] : "?", d.bits,
      d.lanes == 1 ? "" : fmt::format(" by {}", d.lanes));
}

}  // namespace dlpack

namespace {

using dlpack::DLTensor;
using dlpack::Managed;
using dlpack::ManagedVersioned;

constexpr const char* kName = "dltensor";
constexpr const char* kVersionedName = "dltensor_versioned";

dlpack::DLDevice device_of(const Tensor& t) {
  return {t.device().is_cuda() ? dlpack::kCuda : dlpack::kCpu, t.device().index};
}

// Out of here.

/// What a capsule refers to while somebody uses it.
template <class M>
struct Exported {
  M managed;
  Tensor tensor;
};

template <class M>
nb::object make_capsule(const Tensor& t, uint64_t flags) {
  t.storage()->hand_out();
  auto* exported = new Exported<M>{{}, t};
  M& managed = exported->managed;
  TensorSpec& spec = exported->tensor.impl()->spec;
  managed.tensor = {
      t.data(),           device_of(t),         t.rank(), dlpack::data_type(t.dtype()),
      spec.shape.begin(), spec.strides.begin(), 0};
  managed.context = exported;
  managed.deleter = [](M* self) { delete static_cast<Exported<M>*>(self->context); };
  constexpr bool kVersioned = std::is_same_v<M, ManagedVersioned>;
  if constexpr (kVersioned) {
    managed.major = 1;
    managed.minor = 0;
    managed.flags = flags;
  }
  constexpr const char* kOwnName = kVersioned ? kVersionedName : kName;
  // A consumer renames the capsule and calls the deleter itself.
  PyObject* capsule = PyCapsule_New(&managed, kOwnName, [](PyObject* self) {
    if (!PyCapsule_IsValid(self, kOwnName)) return;
    auto* unused = static_cast<M*>(PyCapsule_GetPointer(self, kOwnName));
    unused->deleter(unused);
  });
  if (!capsule) {
    managed.deleter(&managed);
    nb::raise_python_error();
  }
  return nb::steal(capsule);
}

/// Lets the consumer's stream wait for ours. None stands for CUDA's default stream, -1 for a
/// consumer that sees to the order itself.
void wait_for_us(const Tensor& t, nb::handle stream) {
  const bool on_cuda = t.device().is_cuda();
  int64_t handle = 1;
  if (!stream.is_none() && !read_int(stream, handle))
    raise_type_error("__dlpack__: stream must be an integer or None, got {}", class_name(stream));
  if (!on_cuda) {
    check<DeviceError>(stream.is_none() || handle == -1,
                       "__dlpack__: a tensor on the CPU has no stream, got {}", handle);
    return;
  }
  if (handle == -1) return;
  if (handle <= 0)
    throw nb::value_error(
        "__dlpack__: stream must be 1 (CUDA's default), 2 (its default per thread), a handle, or "
        "-1 for no order");
  const int index = t.device().index;
  const CudaLibrary& cuda = cuda_library();
  void* const ours = cuda.current_stream(index);
  void* const theirs = reinterpret_cast<void*>(static_cast<intptr_t>(handle));
  if (theirs == ours) return;  // one order of work, also when they let the memory go
  cuda.order_streams(index, ours, theirs);
  // When the consumer lets the memory go, its last work may still be on the way.
  cuda.record_use(index, t.storage()->data(), cuda_default_stream());
}

using MaybePair = std::optional<std::pair<int, int>>;

/// On the device the consumer asks for, if a copy is allowed.
Tensor on_requested_device(const Tensor& t, const MaybePair& wanted, bool may_copy) {
  const dlpack::DLDevice own = device_of(t);
  if (!wanted || *wanted == std::pair(own.type, own.id)) return t;
  if (wanted->first != dlpack::kCpu || !may_copy)
    raise_buffer_error("__dlpack__: a tensor on {} cannot be given to device type {}, index {}{}",
                       to_string(t.device()), wanted->first, wanted->second,
                       may_copy ? "" : " without a copy");
  return without_gil([&] { return to(t, Device::cpu()); });
}

nb::object to_dlpack(const Tensor& t, nb::handle stream, const MaybePair& max_version,
                     const MaybePair& device, std::optional<bool> copy) {
  check_shareable(t, "__dlpack__");
  Tensor shared = on_requested_device(t, device, copy.value_or(true));
  if (shared.impl() == t.impl() && copy.value_or(false))
    shared = without_gil([&] { return clone(t); });
  const bool copied = shared.impl() != t.impl();
  // What came to the CPU has arrived, whatever the stream.
  if (shared.device() == t.device()) wait_for_us(shared, stream);
  // The spec in the capsule must not change with the tensor's.
  if (!copied) shared = shared.detach();
  const bool versioned = max_version && max_version->first >= 1;
  return versioned ? make_capsule<ManagedVersioned>(shared, copied ? dlpack::kIsCopied : 0)
                   : make_capsule<Managed>(shared, 0);
}

// Into here.

/// Calls a foreign deleter when the last view of its memory is gone.
template <class M>
std::shared_ptr<void> keep_managed(M* managed, Device device) {
  return {managed, [device](void* held) {
            if (!nb::is_alive()) return;
            let_owner_wait(device);
            const nb::gil_scoped_acquire acquire;
            auto* m = static_cast<M*>(held);
            if (m->deleter) m->deleter(m);
          }};
}

Device device_from(dlpack::DLDevice d) {
  switch (d.type) {
    case dlpack::kCpu:
    case dlpack::kCudaHost:
      return Device::cpu();
    case dlpack::kCuda:
    case dlpack::kCudaManaged:
      return Device::cuda(d.id);
    default:
      fail<DeviceError>("from_dlpack: memory of DLPack's device type {} is unknown", d.type);
  }
}

template <class M>
Tensor adopt(M* managed) {
  const DLTensor& t = managed->tensor;
  const Device device = device_from(t.device);
  const std::shared_ptr<void> owner = keep_managed(managed, device);
  check<ShapeError>(t.ndim >= 0, "from_dlpack: {} axes", t.ndim);
  const auto n = static_cast<size_t>(t.ndim);
  ForeignArray array{static_cast<std::byte*>(t.data) + t.byte_offset,
                     device,
                     dlpack::dtype_of(t.dtype),
                     std::vector<int64_t>(t.shape, t.shape + n),
                     {}};
  if (t.strides) array.strides.assign(t.strides, t.strides + n);
  return tensor_of("from_dlpack", array, owner);
}

Tensor adopt_capsule(const nb::object& capsule) {
  PyObject* p = capsule.ptr();
  if (PyCapsule_IsValid(p, kVersionedName)) {
    auto* managed = static_cast<ManagedVersioned*>(PyCapsule_GetPointer(p, kVersionedName));
    if (managed->major != 1)
      raise_buffer_error("from_dlpack: version {} of DLPack is unknown", managed->major);
    if ((managed->flags & dlpack::kReadOnly) != 0)
      raise_buffer_error("from_dlpack: this memory is read-only; copy it with mica.tensor");
    PyCapsule_SetName(p, "used_dltensor_versioned");
    return adopt(managed);
  }
  if (!PyCapsule_IsValid(p, kName))
    raise_type_error("from_dlpack: expected a DLPack capsule, got {}",
                     nb::cast<std::string>(nb::repr(capsule)));
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(p, kName));
  PyCapsule_SetName(p, "used_dltensor");
  return adopt(managed);
}

Tensor from_dlpack_protocol(nb::handle object) {
  std::pair<int, int> where;
  if (!nb::try_cast(object.attr("__dlpack_device__")(), where))
    raise_type_error("from_dlpack: __dlpack_device__ of this {} gives no pair of integers",
                     class_name(object));
  const Device device = device_from({where.first, where.second});
  nb::dict arguments;
  if (device.is_cuda()) {
    arguments["stream"] = reinterpret_cast<intptr_t>(cuda_library().current_stream(device.index));
  }
  const nb::object call = object.attr("__dlpack__");
  nb::dict versioned = nb::borrow<nb::dict>(nb::steal(PyDict_Copy(arguments.ptr())));
  versioned["max_version"] = nb::make_tuple(1, 0);
  try {
    return adopt_capsule(call(**versioned));
  } catch (nb::python_error& e) {
    // Producers from before DLPack 1.0 do not know the argument.
    if (!e.matches(PyExc_TypeError)) throw;
  }
  return adopt_capsule(call(**arguments));
}

}  // namespace

Tensor tensor_of(const char* what, const ForeignArray& array, std::shared_ptr<void> owner) {
  check<ShapeError>(array.shape.size() <= Dims::kMaxRank, "{}: at most {} axes, got {}", what,
                    Dims::kMaxRank, array.shape.size());
  auto impl = make_ref<TensorImpl>();
  TensorSpec& spec = impl->spec;
  spec = TensorSpec::contiguous(Shape(array.shape), array.dtype, array.device);
  spec.defined = true;
  int64_t extent = 1;  // elements from the first to behind the last
  if (!array.strides.empty()) spec.strides = Strides(array.strides);
  for (int i = 0; i < spec.rank(); ++i) {
    const int64_t n = spec.shape[i];
    check<ShapeError>(n >= 0, "{}: a size is negative in {}", what, spec.shape);
    check<ShapeError>(spec.strides[i] >= 0 || n <= 1,
                      "{}: the array has a negative stride; copy it with mica.tensor", what);
    if (n <= 1) spec.strides[i] = std::max<int64_t>(spec.strides[i], 0);
    extent += (n - 1) * spec.strides[i];
  }
  if (spec.numel() == 0) extent = 0;
  spec.aligned = (reinterpret_cast<uintptr_t>(array.data) & 15U) == 0;
  impl->storage = make_ref<Storage>(array.data, static_cast<size_t>(extent) * size_of(spec.dtype),
                                    array.device, std::move(owner));
  impl->storage->hand_out();  // its owner is still there
  return Tensor(std::move(impl));
}

void let_owner_wait(Device device) noexcept {
  if (!device.is_cuda()) return;
  try {
    const CudaLibrary& cuda = cuda_library();
    cuda.order_streams(device.index, cuda.current_stream(device.index), cuda_default_stream());
  } catch (const Error&) {  // the context is lost, and with it all work
  }
}

bool has_protocol(nb::handle object) {
  return nb::hasattr(object, "__dlpack__") || nb::hasattr(object, "__cuda_array_interface__");
}

Tensor from_protocol(nb::handle object) {
  if (nb::hasattr(object, "__dlpack__") && nb::hasattr(object, "__dlpack_device__"))
    return from_dlpack_protocol(object);
  if (nb::hasattr(object, "__cuda_array_interface__")) return from_cuda_array_interface(object);
  if (PyCapsule_CheckExact(object.ptr())) return adopt_capsule(nb::borrow(object));
  raise_type_error("expected an array with __dlpack__, got {}", class_name(object));
}

void check_shareable(const Tensor& t, const char* what) {
  if (t.requires_grad()) {
    fail<Error>("{}: the tensor requires a gradient, which would be lost; call .detach() first",
                what);
  }
  check<Unsupported>(!t.device().is_null(), "{}: a tensor on the null device has no values", what);
}

void bind_dlpack(nb::class_<Tensor>& tensor) {
  tensor.def(
      "_note_write", [](const Tensor& t) { t.storage()->bump_version(); },
      "Another library wrote to its memory.");
  tensor.def("__dlpack__", to_dlpack, nb::kw_only(), "stream"_a = nb::none(),
             "max_version"_a = nb::none(), "dl_device"_a = nb::none(), "copy"_a = nb::none());
  tensor.def("__dlpack_device__", [](const Tensor& t) {
    check<Unsupported>(!t.device().is_null(),
                       "__dlpack_device__: a tensor on the null device has no values");
    const dlpack::DLDevice d = device_of(t);
    return nb::make_tuple(d.type, d.id);
  });
}

}  // namespace mica::python
