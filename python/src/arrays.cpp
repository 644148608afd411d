// Tensors to and from NumPy, lists and numbers.
#include <nanobind/ndarray.h>

#include <algorithm>
#include <array>

#include "mica/core/dtype_switch.h"
#include "python/src/dlpack.h"

namespace mica::python {
namespace {

DType dtype_of(nb::dlpack::dtype d) { return dlpack::dtype_of({d.code, d.bits, d.lanes}); }

/// A Python object that is let go with the GIL held, whichever thread does it.
std::shared_ptr<void> keep(nb::object object) {
  return {object.release().ptr(), [](void* held) {
            if (!nb::is_alive()) return;
            const nb::gil_scoped_acquire acquire;
            nb::handle(static_cast<PyObject*>(held)).dec_ref();
          }};
}

/// An object with memory that nanobind can read. NumPy's scalars are left out: the buffers of some
/// (datetime64) break the protocol.
bool is_array(nb::handle value) {
  if (!nb::ndarray_check(value)) return false;
  const bool is_numpy = value.type().attr("__module__").equal(nb::str("numpy"));
  return !is_numpy || nb::hasattr(value, "__setitem__");
}

/// "ndarray of dtype object".
std::string describe(nb::handle value) {
  const std::string name = class_name(value);
  const nb::object dtype = nb::getattr(value, "dtype", nb::none());
  return dtype.is_none()
             ? name
             : fmt::format("{} of dtype {}", name, nb::cast<std::string>(nb::str(dtype)));
}

/// A tensor that shares the memory of an array on the CPU, strides included.
Tensor adopt(nb::handle array) {
  nb::ndarray<> a;
  if (!is_array(array)) raise_type_error("expected an array, got {}", class_name(array));
  if (!nb::try_cast(array, a))
    raise_type_error(
        "the memory of this {} cannot be shared: it is read-only or of no plain dtype; copy it "
        "with mica.tensor",
        describe(array));
  check<DeviceError>(a.device_type() == nb::device::cpu::value,
                     "from_numpy: the array is not in the CPU's memory");
  ForeignArray shared{a.data(), Device::cpu(), dtype_of(a.dtype()), {}, {}};
  for (size_t i = 0; i < a.ndim(); ++i) {
    shared.shape.push_back(static_cast<int64_t>(a.shape(i)));
    shared.strides.push_back(a.stride(i));
  }
  return tensor_of("from_numpy", shared, keep(nb::borrow(array)));
}

/// A copy of a NumPy array whose bytes are swapped or whose elements lie askew; None of others.
nb::object in_native_order(nb::handle array) {
  const nb::object dtype = nb::getattr(array, "dtype", nb::none());
  if (!nb::hasattr(dtype, "newbyteorder")) return nb::none();
  return nb::module_::import_("numpy").attr("array")(array, dtype.attr("newbyteorder")("="));
}

/// A copy of an array's values, row-major.
Tensor copy_array(nb::handle array) {
  nb::ndarray<nb::ro, nb::c_contig> a;
  if (!nb::try_cast(array, a) && !nb::try_cast(in_native_order(array), a))
    raise_type_error("tensor: the values of this {} are no numbers of a tensor's dtype",
                     describe(array));
  if (a.device_type() != nb::device::cpu::value)
    return without_gil([t = from_protocol(array)] { return clone(t); });
  check<ShapeError>(a.ndim() <= Dims::kMaxRank, "tensor: at most {} dimensions, got {}",
                    Dims::kMaxRank, a.ndim());
  const Shape shape(std::span(a.shape_ptr(), a.ndim()));
  const TensorOptions options{dtype_of(a.dtype()), Device::cpu()};
  return without_gil([&] { return tensor_from_bytes(a.data(), shape, options); });
}

/// Reads nested lists of numbers.
class NumberReader {
 public:
  /// False when something in it is no number.
  bool read(nb::handle value, int depth = 0) {
    if (PyList_Check(value.ptr()) || PyTuple_Check(value.ptr())) return read_list(value, depth);
    if (!read_number(value)) return false;
    check<ShapeError>(depth == shape_.rank(), "tensor: numbers and lists are mixed at depth {}",
                      depth);
    closed_ = true;
    return true;
  }

  Tensor tensor(std::optional<DType> wanted) const {
    const DType dtype = wanted ? *wanted : too_large_ ? DType::i64 : default_dtype();
    const Tensor result = empty(shape_, {dtype, Device::cpu()});
    switch_all(dtype, [&]<class T>() {
      T* out = static_cast<T*>(result.data());
      for (const Number n : numbers_) {
        check<DTypeError>(!n.is_complex() || kIsComplex<T>, "tensor: {} holds no complex numbers",
                          dtype);
        if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>)
          if (too_large_ || !n.fits_in<T>()) raise_overflow(dtype);
        *out++ = n.as<T>();
      }
    });
    return result;
  }

 private:
  /// Of the highest kind among the numbers: complex64, float32, int64 (uint64 where only that holds
  /// them), bool.
  DType default_dtype() const {
    const auto any = [&](auto is) { return std::any_of(numbers_.begin(), numbers_.end(), is); };
    if (any([](Number n) { return n.is_complex(); })) return DType::c64;
    if (numbers_.empty() || any([](Number n) { return n.is_floating(); })) return DType::f32;
    if (any([](Number n) { return n.kind() == Number::Kind::unsigned_integer; })) return DType::u64;
    return any([](Number n) { return !n.is_bool(); }) ? DType::i64 : DType::boolean;
  }

  [[noreturn]] static void raise_overflow(DType dtype) {
    PyErr_Format(PyExc_OverflowError, "tensor: a number is too large for %s, or none",
                 python_name(dtype));
    nb::raise_python_error();
  }

  bool read_list(nb::handle list, int depth) {
    const Py_ssize_t n =
        PyList_Check(list.ptr()) ? PyList_Size(list.ptr()) : PyTuple_Size(list.ptr());
    if (depth == shape_.rank() && !closed_) {
      shape_.push_back(n);
    } else {
      check<ShapeError>(depth < shape_.rank() && shape_[depth] == n,
                        "tensor: the lists at depth {} have different lengths", depth);
    }
    for (Py_ssize_t i = 0; i < n; ++i) {
      const nb::object entry = entry_of(list, i);
      check<ShapeError>(entry.is_valid(), "tensor: a list became shorter while it was read");
      if (!read(entry, depth + 1)) return false;
    }
    closed_ = closed_ || n == 0;
    return true;
  }

  bool read_number(nb::handle value) {
    Number number;
    if (!python::read_number(value, number)) return false;
    too_large_ = too_large_ || (number.is_floating() && PyLong_Check(value.ptr()));
    numbers_.push_back(number);
    return true;
  }

  Shape shape_;
  bool closed_ = false;     ///< the rank is known
  bool too_large_ = false;  ///< an integer has more than 64 bits
  std::vector<Number> numbers_;
};

/// An array that shares the tensor's memory and keeps it alive.
nb::ndarray<nb::numpy> share(const Tensor& t) {
  t.storage()->hand_out();
  const nb::capsule owner(new Tensor(t), [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  std::array<size_t, Dims::kMaxRank> shape{};
  for (int i = 0; i < t.rank(); ++i)
    shape[static_cast<size_t>(i)] = static_cast<size_t>(t.shape()[i]);
  const dlpack::DataType d = dlpack::data_type(t.dtype());
  return nb::ndarray<nb::numpy>(t.data(), static_cast<size_t>(t.rank()), shape.data(), owner,
                                t.strides().begin(), nb::dlpack::dtype{d.code, d.bits, d.lanes});
}

nb::object to_numpy(const Tensor& t, bool force) {
  if (force) {
    const Tensor here = without_gil([&] {
      const Tensor values = to(t.detach(), Device::cpu());
      return info_of(values.dtype()).typestr ? values : cast(values, DType::f32);
    });
    return nb::cast(share(here));
  }
  check_shareable(t, "numpy");
  if (!t.device().is_cpu()) {
    raise_type_error("numpy: the tensor is on {}; call .cpu() first", t.device());
  }
  check<DTypeError>(info_of(t.dtype()).typestr,
                    "numpy: NumPy has no {}; convert with .to(mica.float32) first",
                    python_name(t.dtype()));
  return nb::cast(share(t));
}

/// What numpy.asarray and numpy.array ask for. What NumPy has not, like bfloat16, arrives as
/// float32.
nb::object to_array(const Tensor& t, nb::handle dtype, std::optional<bool> copy) {
  const bool may_copy = copy.value_or(true);
  const bool must_copy = copy.value_or(false);
  const bool converts = !info_of(t.dtype()).typestr;
  nb::object array =
      to_numpy(converts ? without_gil([&] { return cast(t, DType::f32); }) : t, false);
  const bool casts = !dtype.is_none() && !array.attr("dtype").equal(dtype);
  if (!may_copy && (converts || casts))
    throw nb::value_error("__array__: these values cannot be had in this dtype without a copy");
  if (casts) return array.attr("astype")(dtype);
  return must_copy && !converts ? array.attr("copy")() : array;
}

/// Shares the memory if that is possible.
std::optional<Tensor> try_share(nb::handle data) {
  try {
    if (nb::hasattr(data, "__cuda_array_interface__")) return from_protocol(data);
    return is_array(data) ? std::optional(adopt(data)) : std::nullopt;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

/// The values of anything as a tensor, shared where `copy` allows it and nothing has to change.
Tensor as_tensor(nb::handle data, nb::handle dtype, nb::handle device, std::optional<bool> copy) {
  const bool must_copy = copy.value_or(false);
  const bool may_copy = copy.value_or(true);
  const Tensor* own = tensor_or_null(data);
  const std::optional<Tensor> shared = own         ? std::optional(*own)
                                       : must_copy ? std::nullopt
                                                   : try_share(data);
  if (!shared) {
    if (!may_copy) throw nb::value_error("asarray: this memory cannot be had without a copy");
    return tensor_from(data, dtype, device);
  }
  const TensorOptions options = parse_options(dtype, device, {shared->dtype(), shared->device()});
  return without_gil([&] {
    const Tensor result = to(cast(*shared, options.dtype), options.device);
    const bool is_shared = result.impl() == shared->impl();
    check<Unsupported>(may_copy || is_shared,
                       "asarray: {} on {} cannot be had of {} on {} without a copy", options.dtype,
                       options.device, shared->dtype(), shared->device());
    return must_copy && is_shared ? clone(result) : result;
  });
}

Tensor from_dlpack(nb::handle array, nb::handle device, std::optional<bool> copy) {
  const bool may_copy = copy.value_or(true);
  if (copy.value_or(false)) return as_tensor(array, nb::none(), device, true);
  const Tensor t = from_protocol(array);
  const Device target = device.is_none() ? t.device() : parse_device(device);
  if (target != t.device() && !may_copy)
    raise_buffer_error("from_dlpack: memory on {} cannot be had on {} without a copy",
                       to_string(t.device()), to_string(target));
  return without_gil([&] { return to(t, target); });
}

}  // namespace

/// NumPy would read a sequence that says it has more elements than there can be until the memory is
/// full (lengths.cpp).
static void check_length(nb::handle data) {
  if (!PySequence_Check(data.ptr()) || PySequence_Size(data.ptr()) >= 0) return;
  if (PyErr_ExceptionMatches(PyExc_OverflowError)) nb::raise_python_error();
  PyErr_Clear();
}

Tensor tensor_from(nb::handle data, nb::handle dtype, nb::handle device) {
  const auto wanted = dtype.is_none() ? std::nullopt : std::optional(parse_dtype(dtype));
  Tensor t;
  NumberReader reader;
  if (nb::isinstance<Tensor>(data)) {
    t = without_gil([x = nb::cast<Tensor>(data)] { return clone(x.detach()); });
  } else if (is_array(data)) {
    t = copy_array(data);
  } else if (nb::hasattr(data, "__cuda_array_interface__")) {
    t = without_gil([x = from_protocol(data)] { return clone(x); });
  } else if (!nb::hasattr(data, "dtype") && reader.read(data)) {
    t = reader.tensor(wanted);
  } else {
    check_length(data);
    t = copy_array(nb::module_::import_("numpy").attr("asarray")(data));
  }
  const Device target = device.is_none() ? t.device() : parse_device(device);
  return without_gil([&] { return to(wanted ? cast(t, *wanted) : t, target); });
}

void bind_arrays(nb::module_& m, nb::class_<Tensor>& tensor) {
  m.def(
      "tensor",
      [](nb::handle data, nb::handle dtype, nb::handle device, bool requires_grad) {
        Tensor t = tensor_from(data, dtype, device);
        if (requires_grad) t.set_requires_grad();
        return t;
      },
      "data"_a, nb::kw_only(), "dtype"_a = nb::none(), "device"_a = nb::none(),
      "requires_grad"_a = false,
      "A new tensor with the values of an array, a tensor, a (nested) list or a number. Python "
      "floats become float32, "
      "ints int64, complex numbers complex64.");
  m.def("from_numpy", adopt, "array"_a,
        "A tensor that shares the memory of a writable array, strides included.");
  m.def("from_dlpack", from_dlpack, "array"_a, nb::kw_only(), "device"_a = nb::none(),
        "copy"_a = nb::none(),
        "A tensor that shares the memory of an object with __dlpack__ or __cuda_array_interface__, "
        "on whichever device it lies.");
  for (const char* name : {"asarray", "as_tensor"}) {
    m.def(name, as_tensor, "data"_a, nb::kw_only(), "dtype"_a = nb::none(), "device"_a = nb::none(),
          "copy"_a = nb::none(),
          "The values of an array, a tensor, a (nested) list or a number; of arrays the memory "
          "itself, where it need not change. copy=True always copies, copy=False never.");
  }

  tensor.def("numpy", to_numpy, nb::kw_only(), "force"_a = false,
             "A NumPy array that shares this tensor's memory; the tensor must be on the CPU. With "
             "force=True it may be a copy, from another device or without history.");
  tensor.def("__array__", to_array, "dtype"_a = nb::none(), "copy"_a = nb::none());
  // NumPy leaves `array + tensor` to the tensor instead of turning the tensor into an array.
  tensor.attr("__array_ufunc__") = nb::none();
  bind_dlpack(tensor);
  bind_cuda_array_interface(tensor);
}

}  // namespace mica::python
