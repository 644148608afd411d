// Tensors to and from NumPy, DLPack, lists and numbers.
#include <nanobind/ndarray.h>

#include <array>

#include "mica/core/dtype_switch.h"
#include "python/src/bindings.h"

namespace mica::python {
namespace {

using nb::dlpack::dtype_code;

nb::dlpack::dtype to_dlpack(DType t) {
  const auto code = [t] {
    if (t == DType::bf16) return dtype_code::Bfloat;
    if (t == DType::boolean) return dtype_code::Bool;
    if (t == DType::u8) return dtype_code::UInt;
    return is_floating(t) ? dtype_code::Float : dtype_code::Int;
  }();
  return {static_cast<uint8_t>(code), static_cast<uint8_t>(8 * size_of(t)), 1};
}

DType from_dlpack(nb::dlpack::dtype d) {
  for (int i = 0; i < kDTypes; ++i) {
    if (to_dlpack(static_cast<DType>(i)) == d) return static_cast<DType>(i);
  }
  constexpr const char* kKinds[] = {"int", "uint", "float", "", "bfloat", "complex", "bool"};
  fail<DTypeError>(
      "an array of {}{} has no tensor dtype; convert it first, to float32 or int64 say",
      d.code < std::size(kKinds) ? kKinds[d.code] : "?", d.bits);
}

/// A Python object that is let go with the GIL held, whichever thread does it.
std::shared_ptr<void> keep(nb::object object) {
  return {object.release().ptr(), [](void* held) {
            if (!nb::is_alive()) return;
            const nb::gil_scoped_acquire acquire;
            nb::handle(static_cast<PyObject*>(held)).dec_ref();
          }};
}

/// A tensor that shares the memory of an array on the CPU, strides included.
Tensor adopt(nb::handle array) {
  nb::ndarray<> a;
  if (!nb::try_cast(array, a)) {
    if (!nb::ndarray_check(array)) raise_type_error("expected an array, got {}", class_name(array));
    raise_type_error(
        "the memory of this {} cannot be shared: it is read-only or of no plain dtype; copy it "
        "with "
        "mica.tensor",
        class_name(array));
  }
  check<DeviceError>(a.device_type() == nb::device::cpu::value,
                     "from_numpy: the array is not in the CPU's memory");
  check<ShapeError>(a.ndim() <= Dims::kMaxRank, "from_numpy: at most {} dimensions, got {}",
                    Dims::kMaxRank, a.ndim());
  auto impl = make_ref<TensorImpl>();
  impl->spec.dtype = from_dlpack(a.dtype());
  impl->spec.defined = true;
  int64_t elements = 1;
  for (size_t i = 0; i < a.ndim(); ++i) {
    const int64_t stride = a.stride(i);
    const auto size = static_cast<int64_t>(a.shape(i));
    check<ShapeError>(stride >= 0 || size <= 1,
                      "from_numpy: the array has a negative stride; copy it with mica.tensor");
    impl->spec.shape.push_back(size);
    impl->spec.strides.push_back(stride);
    elements = size == 0 ? 0 : elements + (elements == 0 ? 0 : (size - 1) * stride);
  }
  impl->spec.aligned = (reinterpret_cast<uintptr_t>(a.data()) & 15U) == 0;
  const size_t bytes = static_cast<size_t>(elements) * size_of(impl->spec.dtype);
  impl->storage = make_ref<Storage>(a.data(), bytes, Device::cpu(), keep(nb::borrow(array)));
  impl->storage->hand_out();  // the array is still there
  return Tensor(std::move(impl));
}

/// A copy of an array's values, row-major.
Tensor copy_array(nb::handle array) {
  nb::ndarray<nb::ro, nb::c_contig> a;
  if (!nb::try_cast(array, a))
    raise_type_error("tensor: cannot read this {} as an array", class_name(array));
  if (a.device_type() != nb::device::cpu::value) {
    fail<DeviceError>("tensor: the array is not in the CPU's memory; copy it there first");
  }
  check<ShapeError>(a.ndim() <= Dims::kMaxRank, "tensor: at most {} dimensions, got {}",
                    Dims::kMaxRank, a.ndim());
  const Shape shape(std::span(a.shape_ptr(), a.ndim()));
  return tensor_from_bytes(a.data(), shape, {from_dlpack(a.dtype()), Device::cpu()});
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
    constexpr DType kDefaults[] = {DType::boolean, DType::i64, DType::f32};
    const DType dtype = wanted ? *wanted : numbers_.empty() ? DType::f32 : kDefaults[kind_];
    return switch_all(dtype, [&]<class T>() {
      constexpr bool kIsInteger = std::is_integral_v<T> && !std::is_same_v<T, bool>;
      if (kIsInteger && too_large_) raise_overflow(dtype);
      Tensor result = empty(shape_, {dtype, Device::cpu()});
      T* out = static_cast<T*>(result.data());
      for (size_t i = 0; i < numbers_.size(); ++i) {
        if (kind_ < kFloat && std::is_integral_v<T>) {
          out[i] = static_cast<T>(integers_[i]);
          if (kIsInteger && static_cast<int64_t>(out[i]) != integers_[i]) raise_overflow(dtype);
        } else {
          out[i] = static_cast<T>(static_cast<Compute<T>>(numbers_[i]));
        }
      }
      return result;
    });
  }

 private:
  static constexpr int kInteger = 1;
  static constexpr int kFloat = 2;

  [[noreturn]] static void raise_overflow(DType dtype) {
    PyErr_Format(PyExc_OverflowError, "tensor: an integer is too large for %s", python_name(dtype));
    nb::raise_python_error();
  }

  bool read_list(nb::handle list, int depth) {
    const auto n = static_cast<int64_t>(nb::len(list));
    if (depth == shape_.rank() && !closed_) {
      shape_.push_back(n);
    } else {
      check<ShapeError>(depth < shape_.rank() && shape_[depth] == n,
                        "tensor: the lists at depth {} have different lengths", depth);
    }
    for (int64_t i = 0; i < n; ++i) {
      const nb::object entry = nb::steal(PySequence_GetItem(list.ptr(), i));
      if (!read(entry, depth + 1)) return false;
    }
    closed_ = closed_ || n == 0;
    return true;
  }

  bool read_number(nb::handle value) {
    int64_t integer = 0;
    double number = 0;
    if (read_int(value, integer)) {
      kind_ = std::max(kind_, PyBool_Check(value.ptr()) ? 0 : kInteger);
      number = static_cast<double>(integer);
    } else {
      number = PyFloat_AsDouble(value.ptr());
      if (PyErr_Occurred()) {
        PyErr_Clear();
        return false;
      }
      too_large_ = too_large_ || PyLong_Check(value.ptr());
      kind_ = std::max(kind_, PyLong_Check(value.ptr()) ? kInteger : kFloat);
    }
    integers_.push_back(integer);
    numbers_.push_back(number);
    return true;
  }

  Shape shape_;
  bool closed_ = false;  ///< the rank is known
  int kind_ = 0;
  bool too_large_ = false;  ///< an integer does not fit 64 bits
  std::vector<int64_t> integers_;
  std::vector<double> numbers_;
};

/// An array object that shares the tensor's memory and keeps it alive.
template <class Framework>
nb::ndarray<Framework> share(const Tensor& t) {
  t.storage()->hand_out();
  const nb::capsule owner(new Tensor(t), [](void* p) noexcept { delete static_cast<Tensor*>(p); });
  std::array<size_t, Dims::kMaxRank> shape{};
  for (int i = 0; i < t.rank(); ++i)
    shape[static_cast<size_t>(i)] = static_cast<size_t>(t.shape()[i]);
  const int device = t.device().is_cuda() ? nb::device::cuda::value : nb::device::cpu::value;
  return nb::ndarray<Framework>(t.data(), static_cast<size_t>(t.rank()), shape.data(), owner,
                                t.strides().begin(), to_dlpack(t.dtype()), device,
                                t.device().index);
}

void check_shareable(const Tensor& t, const char* what) {
  if (t.requires_grad()) {
    fail<Error>("{}: the tensor requires a gradient, which would be lost; call .detach() first",
                what);
  }
  check<Unsupported>(!t.device().is_null(), "{}: a tensor on the null device has no values", what);
}

nb::object to_numpy(const Tensor& t) {
  check_shareable(t, "numpy");
  if (!t.device().is_cpu()) {
    raise_type_error("numpy: the tensor is on {}; call .cpu() first", t.device());
  }
  check<DTypeError>(t.dtype() != DType::bf16,
                    "numpy: NumPy has no bfloat16; convert with .to(mica.float32) first");
  return nb::cast(share<nb::numpy>(t));
}

}  // namespace

Tensor tensor_from(nb::handle data, nb::handle dtype, nb::handle device) {
  const auto wanted = dtype.is_none() ? std::nullopt : std::optional(parse_dtype(dtype));
  Tensor t;
  NumberReader reader;
  if (nb::isinstance<Tensor>(data)) {
    t = without_gil([x = nb::cast<Tensor>(data)] { return clone(x.detach()); });
  } else if (nb::ndarray_check(data)) {
    t = copy_array(data);
  } else if (reader.read(data)) {
    t = reader.tensor(wanted);
  } else {
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
      "ints int64.");
  m.def("from_numpy", adopt, "array"_a,
        "A tensor that shares the memory of a writable array, strides included.");
  m.def("from_dlpack", adopt, "array"_a,
        "A tensor that shares the memory of an object with __dlpack__.");

  tensor.def("numpy", to_numpy,
             "A NumPy array that shares this tensor's memory; the tensor must be on the CPU.");
  tensor.def(
      "__array__",
      [](const Tensor& t, nb::handle dtype, nb::handle copy) {
        nb::object array = to_numpy(t);
        const bool may_share = copy.is_none() || !nb::cast<bool>(copy);
        if (!dtype.is_none()) array = array.attr("astype")(dtype, "copy"_a = false);
        return may_share ? array : array.attr("copy")();
      },
      "dtype"_a = nb::none(), "copy"_a = nb::none());
  // NumPy leaves `array + tensor` to the tensor instead of turning the tensor into an array.
  tensor.attr("__array_ufunc__") = nb::none();
  tensor.def("__dlpack__", [](const Tensor& t, const nb::kwargs& kwargs) {
    check_shareable(t, "__dlpack__");
    // Whichever stream the consumer uses, the values are there.
    if (t.device().is_cuda()) without_gil([&] { synchronize(t.device()); });
    return nb::cast(share<nb::array_api>(t)).attr("__dlpack__")(**kwargs);
  });
  tensor.def("__dlpack_device__", [](const Tensor& t) {
    return nb::make_tuple(t.device().is_cuda() ? nb::device::cuda::value : nb::device::cpu::value,
                          t.device().index);
  });
}

}  // namespace mica::python
