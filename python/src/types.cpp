// dtypes, devices, memory formats, and how arguments name them.
#include <array>
#include <cmath>

#include "python/src/bindings.h"
#include "python/src/past_int64.h"

namespace mica::python {
namespace {

// Borrowed from the module, which outlives every use.
std::array<nb::handle, kDTypes> dtype_objects;

/// The name that a value gives a dtype by: its own if it is a string, else its `name` (numpy.dtype)
/// or
/// `__name__` (numpy.float32, float).
std::string dtype_name(nb::handle value) {
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  if (value.is(reinterpret_cast<PyObject*>(&PyFloat_Type))) return "float32";
  if (value.is(reinterpret_cast<PyObject*>(&PyLong_Type))) return "int64";
  if (value.is(reinterpret_cast<PyObject*>(&PyComplex_Type))) return "complex64";
  for (const char* attribute : {"name", "__name__"}) {
    const nb::object name = nb::getattr(value, attribute, nb::none());
    if (nb::isinstance<nb::str>(name)) return nb::cast<std::string>(name);
  }
  raise_type_error("expected a dtype, got {}", class_name(value));
}

/// The limits of a floating dtype, and of an integer one.
struct FloatInfo {
  DType dtype;
};
struct IntegerInfo {
  DType dtype;
};

/// The dtype of a dtype or of a tensor.
DType dtype_in(nb::handle value) {
  const Tensor* t = tensor_or_null(value);
  return t ? t->dtype() : parse_dtype(value);
}

void bind_limits(nb::module_& m) {
  const auto info = [](const FloatInfo& f) -> const DTypeInfo& { return info_of(f.dtype); };
  nb::class_<FloatInfo>(m, "finfo",
                        "The limits of a floating dtype, or of the parts of a complex one.")
      .def(
          "__init__",
          [](FloatInfo* self, nb::handle dtype) {
            const DType t = dtype_in(dtype);
            check<DTypeError>(is_differentiable(t),
                              "finfo: expected a floating or complex dtype, got {}", t);
            new (self) FloatInfo{real_dtype(t)};
          },
          "dtype"_a)
      .def_prop_ro(
          "bits", [info](const FloatInfo& f) { return 8 * info(f).size; }, "Of one element.")
      .def_ro("dtype", &FloatInfo::dtype, "Whose limits these are.")
      .def_prop_ro(
          "eps", [info](const FloatInfo& f) { return std::ldexp(1, 1 - info(f).digits); },
          "From 1 to the next larger number.")
      .def_prop_ro(
          "max", [info](const FloatInfo& f) { return info(f).largest; }, "The largest number.")
      .def_prop_ro(
          "min", [info](const FloatInfo& f) { return -info(f).largest; },
          "The most negative number.")
      .def_prop_ro(
          "smallest_normal", [info](const FloatInfo& f) { return info(f).smallest_normal; },
          "The smallest positive number with all digits.")
      .def_prop_ro(
          "tiny", [info](const FloatInfo& f) { return info(f).smallest_normal; },
          "smallest_normal.")
      .def("__repr__", shows({"bits", "eps", "max", "smallest_normal"}));
  nb::class_<IntegerInfo>(m, "iinfo", "The limits of an integer dtype.")
      .def(
          "__init__",
          [](IntegerInfo* self, nb::handle dtype) {
            const DType t = dtype_in(dtype);
            check<DTypeError>(is_integer(t), "iinfo: expected an integer dtype, got {}", t);
            new (self) IntegerInfo{t};
          },
          "dtype"_a)
      .def_prop_ro(
          "bits", [](const IntegerInfo& i) { return 8 * size_of(i.dtype); }, "Of one element.")
      .def_ro("dtype", &IntegerInfo::dtype, "Whose limits these are.")
      .def_prop_ro(
          "max", [](const IntegerInfo& i) { return integer_limits(i.dtype).largest; },
          "The largest number.")
      .def_prop_ro(
          "min", [](const IntegerInfo& i) { return integer_limits(i.dtype).lowest; },
          "The smallest number.")
      .def("__repr__", shows({"bits", "max", "min"}));
}

/// What tensors, dtypes and Python numbers give together. A number is weak: beside tensors and
/// dtypes it matters only where its kind is higher than theirs.
DType result_type(const nb::args& all) {
  if (all.size() == 0) throw nb::value_error("result_type: expected a dtype or a tensor");
  std::optional<DType> known;
  std::optional<Number> highest;
  const auto rank = [](const Number& n) {
    return n.is_complex() ? 3 : n.is_floating() ? 2 : n.is_bool() ? 0 : 1;
  };
  for (const nb::handle each : all) {
    const bool is_number = PyBool_Check(each.ptr()) || PyLong_Check(each.ptr()) ||
                           PyFloat_CheckExact(each.ptr()) || PyComplex_CheckExact(each.ptr());
    if (Number n; is_number && read_number(each, n)) {
      if (!highest || rank(n) > rank(*highest)) highest = n;
    } else {
      const DType t = dtype_in(each);
      known = known ? promote(*known, t) : t;
    }
  }
  if (!highest) return *known;
  if (highest->is_complex()) return known ? complex_dtype(*known) : DType::c64;
  const DType own = highest->is_floating() ? DType::f32
                    : highest->is_bool()   ? DType::boolean
                                           : DType::i64;
  if (!known || (*known == DType::boolean && !highest->is_bool())) return own;
  return highest->is_floating() && !is_differentiable(*known) ? DType::f32 : *known;
}

void bind_dtype_rules(nb::module_& m) {
  bind_limits(m);
  m.def("promote_types", promote, "type1"_a, "type2"_a,
        "The dtype of the result when tensors of two dtypes meet.");
  m.def(
      "can_cast", [](nb::handle from, DType to) { return common_dtype(dtype_in(from), to) == to; },
      "from_"_a, "to"_a, "Whether values of the one dtype become the other when both meet.");
  m.def("result_type", result_type,
        "The dtype of the result when tensors, dtypes and Python numbers meet.");
}

/// What stands for every CUDA device that a program names: `python -m mica.as_torch --on cpu`.
std::optional<Device> in_place_of_cuda;

Device device_named(nb::handle value) {
  if (nb::isinstance<Device>(value)) return nb::cast<Device>(value);
  if (nb::isinstance<nb::str>(value)) return device_from_name(nb::cast<std::string>(value));
  int64_t index = 0;
  if (!read_int(value, index)) raise_type_error("expected a device, got {}", class_name(value));
  return Device::cuda(static_cast<int>(index));
}

}  // namespace

const char* python_name(DType t) { return info_of(t).long_name.data(); }

std::string class_name(nb::handle value) {
  return nb::cast<std::string>(value.type().attr("__name__"));
}

nb::handle dtype_object(DType t) { return dtype_objects[static_cast<size_t>(t)]; }

bool read_int(nb::handle value, int64_t& result) noexcept {
  if (!PyIndex_Check(value.ptr())) return false;
  const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
  if (number.is_valid()) result = PyLong_AsLongLong(number.ptr());
  if (!PyErr_Occurred()) return true;
  PyErr_Clear();
  return false;
}

/// Python's, or one of NumPy's that has no axes.
bool is_complex_number(nb::handle value) noexcept {
  if (PyComplex_Check(value.ptr())) return true;
  if (tensor_or_null(value) || !PyObject_HasAttrString(value.ptr(), "__complex__")) return false;
  const nb::object kind = nb::getattr(nb::getattr(value, "dtype", nb::none()), "kind", nb::none());
  return nb::isinstance<nb::str>(kind) && kind.equal(nb::str("c"));
}

bool read_number(nb::handle value, Number& result) noexcept {
  PyObject* p = value.ptr();
  if (PyBool_Check(p)) {
    result = p == Py_True;
    return true;
  }
  if (PyFloat_Check(p)) {
    result = PyFloat_AsDouble(p);
    return true;
  }
  if (is_complex_number(value)) {
    const nb::object plain = PyComplex_Check(p)
                                 ? nb::borrow(p)
                                 : nb::steal(PyObject_CallMethod(p, "__complex__", nullptr));
    PyErr_Clear();
    if (!plain.is_valid()) return false;
    result =
        Complex<double>(PyComplex_RealAsDouble(plain.ptr()), PyComplex_ImagAsDouble(plain.ptr()));
    return true;
  }
  if (tensor_or_null(value)) return false;
  const nb::object integer = nb::steal(PyIndex_Check(p) ? PyNumber_Index(p) : nullptr);
  PyErr_Clear();
  if (integer.is_valid()) {
    int overflow = 0;
    const long long small = PyLong_AsLongLongAndOverflow(integer.ptr(), &overflow);
    if (overflow == 0) {
      result = static_cast<int64_t>(small);
      return true;
    }
    const unsigned long long large = PyLong_AsUnsignedLongLong(integer.ptr());
    if (!PyErr_Occurred()) {
      result = static_cast<uint64_t>(large);
      return true;
    }
    PyErr_Clear();
  }
  const double number = PyFloat_AsDouble(p);
  if (PyErr_Occurred()) {
    PyErr_Clear();
    return false;
  }
  result = integer.is_valid() ? past_int64(number) : number;
  return true;
}

DType parse_dtype(nb::handle value) {
  if (DType t{}; nb::try_cast(value, t)) return t;
  return dtype_from_name(dtype_name(value));
}

Device parse_device(nb::handle value) {
  const Device device = device_named(value);
  return device.is_cuda() ? in_place_of_cuda.value_or(device) : device;
}

TensorOptions parse_options(nb::handle dtype, nb::handle device, TensorOptions defaults) {
  if (!dtype.is_none()) defaults.dtype = parse_dtype(dtype);
  if (!device.is_none()) defaults.device = parse_device(device);
  return defaults;
}

Dims parse_dims(const nb::args& args) {
  const nb::object first = args.size() == 1 ? nb::object(args[0]) : nb::object(args);
  Dims dims;
  if (!nb::try_cast(first, dims)) {
    const bool too_long =
        PySequence_Check(first.ptr()) && nb::len(first) > static_cast<size_t>(Dims::kMaxRank);
    check<ShapeError>(!too_long, "tensors have at most {} axes, got {} sizes or axes",
                      Dims::kMaxRank, too_long ? nb::len(first) : 0);
    raise_type_error("expected integers, got {}", nb::cast<std::string>(nb::repr(first)));
  }
  return dims;
}

Tensors parse_tensors(nb::handle value, const char* what) {
  if (nb::isinstance<Tensor>(value)) return {nb::cast<Tensor>(value)};
  Tensors tensors;
  for (const nb::handle t : nb::iter(value)) {
    if (!nb::isinstance<Tensor>(t)) {
      raise_type_error("{}: expected tensors, got {}", what, class_name(t));
    }
    tensors.push_back(nb::cast<Tensor>(t));
  }
  return tensors;
}

nb::tuple to_tuple(const Tensors& tensors) {
  nb::list list;
  for (const Tensor& t : tensors) list.append(nb::cast(or_none(t)));
  return nb::tuple(list);
}

void bind_types(nb::module_& m) {
  m.def("_put_in_place_of_cuda", [](nb::handle device) {
    in_place_of_cuda = device.is_none() ? std::nullopt : std::optional(device_named(device));
  });
  nb::class_<DTypeObject>(m, "dtype", "The type of a tensor's elements: mica.float32 and so on.")
      .def_prop_ro(
          "name", [](const DTypeObject& d) { return python_name(d.value); }, "\"float32\".")
      .def_prop_ro(
          "itemsize", [](const DTypeObject& d) { return size_of(d.value); },
          "Bytes of one element.")
      .def_prop_ro(
          "is_floating_point", [](const DTypeObject& d) { return is_floating(d.value); },
          "Whether it is a floating one.")
      .def_prop_ro(
          "is_complex", [](const DTypeObject& d) { return is_complex(d.value); },
          "Whether it is a complex one.")
      .def_prop_ro(
          "is_signed",
          [](const DTypeObject& d) { return !is_unsigned(d.value) && d.value != DType::boolean; },
          "Whether it has negative numbers.")
      .def("__repr__",
           [](const DTypeObject& d) { return std::string("mica.") + python_name(d.value); });
  for (const DTypeInfo& info : kDTypeTable) {
    const nb::object object = nb::cast(DTypeObject{info.dtype});
    m.attr(info.long_name.data()) = object;
    dtype_objects[static_cast<size_t>(info.dtype)] = object;
  }

  bind_dtype_rules(m);

  nb::class_<Device>(m, "device", "Where a tensor lives: device(\"cpu\"), device(\"cuda:0\").")
      .def(
          "__init__",
          [](Device* self, nb::handle device, std::optional<int> index) {
            const nb::object named =
                index ? nb::object(nb::str("{}:{}").format(device, *index)) : nb::borrow(device);
            new (self) Device(parse_device(named));
          },
          "type"_a, "index"_a = nb::none())
      .def_prop_ro(
          "type",
          [](Device d) {
            return to_string({d.kind, 0}).substr(0, d.is_cuda() ? 4 : std::string::npos);
          },
          "\"cpu\", \"cuda\" or \"null\".")
      .def_ro("index", &Device::index, "Which of them; 0 on the CPU.")
      .def(
          "__eq__", [](Device a, Device b) { return a == b; }, nb::is_operator())
      .def("__hash__", [](Device d) { return static_cast<int>(d.kind) * 256 + d.index; })
      .def("__str__", [](Device d) { return to_string(d); })
      .def("__repr__", [](Device d) { return "device('" + to_string(d) + "')"; });

  nb::enum_<MemoryFormat>(m, "memory_format",
                          "In which order the elements of a tensor lie: row-major, or (N, C, H, W) "
                          "with the channels last.")
      .value("contiguous_format", MemoryFormat::contiguous)
      .value("channels_last", MemoryFormat::channels_last)
      .export_values();
}

}  // namespace mica::python
