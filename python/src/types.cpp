// dtypes, devices, memory formats, and how arguments name them.
#include <array>
#include <limits>

#include "python/src/bindings.h"

namespace mica::python {
namespace {

constexpr std::array<std::pair<const char*, DType>, kDTypes> kDTypeNames = {{
    {"float64", DType::f64},
    {"float32", DType::f32},
    {"float16", DType::f16},
    {"bfloat16", DType::bf16},
    {"int64", DType::i64},
    {"int32", DType::i32},
    {"uint8", DType::u8},
    {"bool", DType::boolean},
}};

// Borrowed from the module, which outlives every use.
std::array<nb::handle, kDTypes> dtype_objects;

/// The name that a value gives a dtype by: its own if it is a string, else its `name` (numpy.dtype)
/// or
/// `__name__` (numpy.float32, float).
std::string dtype_name(nb::handle value) {
  if (nb::isinstance<nb::str>(value)) return nb::cast<std::string>(value);
  if (value.is(reinterpret_cast<PyObject*>(&PyFloat_Type))) return "float32";
  if (value.is(reinterpret_cast<PyObject*>(&PyLong_Type))) return "int64";
  for (const char* attribute : {"name", "__name__"}) {
    const nb::object name = nb::getattr(value, attribute, nb::none());
    if (nb::isinstance<nb::str>(name)) return nb::cast<std::string>(name);
  }
  raise_type_error("expected a dtype, got {}", class_name(value));
}

/// What numbers of a floating dtype can be.
struct FloatInfo {
  DType dtype;
  double eps, max, smallest_normal;
};

FloatInfo float_info(DType t) {
  using Float = std::numeric_limits<float>;
  using Double = std::numeric_limits<double>;
  switch (t) {
    case DType::f64:
      return {t, Double::epsilon(), Double::max(), Double::min()};
    case DType::f32:
      return {t, Float::epsilon(), Float::max(), Float::min()};
    case DType::f16:
      return {t, 0x1p-10, 65504, 0x1p-14};
    case DType::bf16:
      return {t, 0x1p-7, 0x1.fep127, 0x1p-126};
    default:
      fail<DTypeError>("finfo: expected a floating dtype, got {}", t);
  }
}

struct IntegerInfo {
  DType dtype;
  int64_t min, max;
};

IntegerInfo integer_info(DType t) {
  switch (t) {
    case DType::i64:
      return {t, INT64_MIN, INT64_MAX};
    case DType::i32:
      return {t, INT32_MIN, INT32_MAX};
    case DType::u8:
      return {t, 0, UINT8_MAX};
    default:
      fail<DTypeError>("iinfo: expected an integer dtype, got {}", t);
  }
}

/// The dtype of a dtype or of a tensor.
DType dtype_in(nb::handle value) {
  const Tensor* t = tensor_or_null(value);
  return t ? t->dtype() : parse_dtype(value);
}

void bind_dtype_rules(nb::module_& m) {
  nb::class_<FloatInfo>(m, "finfo", "The limits of a floating dtype.")
      .def(
          "__init__",
          [](FloatInfo* self, nb::handle dtype) {
            new (self) FloatInfo(float_info(dtype_in(dtype)));
          },
          "dtype"_a)
      .def_prop_ro(
          "bits", [](const FloatInfo& f) { return 8 * size_of(f.dtype); }, "Of one element.")
      .def_ro("dtype", &FloatInfo::dtype, "Whose limits these are.")
      .def_ro("eps", &FloatInfo::eps, "From 1 to the next larger number.")
      .def_ro("max", &FloatInfo::max, "The largest number.")
      .def_prop_ro(
          "min", [](const FloatInfo& f) { return -f.max; }, "The most negative number.")
      .def_ro("smallest_normal", &FloatInfo::smallest_normal,
              "The smallest positive number with all digits.")
      .def_ro("tiny", &FloatInfo::smallest_normal, "smallest_normal.")
      .def("__repr__", shows({"bits", "eps", "max", "smallest_normal"}));
  nb::class_<IntegerInfo>(m, "iinfo", "The limits of an integer dtype.")
      .def(
          "__init__",
          [](IntegerInfo* self, nb::handle dtype) {
            new (self) IntegerInfo(integer_info(dtype_in(dtype)));
          },
          "dtype"_a)
      .def_prop_ro(
          "bits", [](const IntegerInfo& i) { return 8 * size_of(i.dtype); }, "Of one element.")
      .def_ro("dtype", &IntegerInfo::dtype, "Whose limits these are.")
      .def_ro("max", &IntegerInfo::max, "The largest number.")
      .def_ro("min", &IntegerInfo::min, "The smallest number.")
      .def("__repr__", shows({"bits", "max", "min"}));
  m.def("promote_types", promote, "type1"_a, "type2"_a,
        "The dtype of the result when tensors of two dtypes meet.");
  m.def(
      "can_cast", [](nb::handle from, DType to) { return promote(dtype_in(from), to) == to; },
      "from_"_a, "to"_a, "Whether values of the one dtype become the other when both meet.");
  m.def(
      "result_type",
      [](const nb::args& all) {
        if (all.size() == 0) throw nb::value_error("result_type: expected a dtype or a tensor");
        DType t = dtype_in(all[0]);
        for (const nb::handle each : all) t = promote(t, dtype_in(each));
        return t;
      },
      "The dtype of the result when tensors and dtypes meet.");
}

}  // namespace

const char* python_name(DType t) {
  for (const auto& [name, value] : kDTypeNames) {
    if (value == t) return name;
  }
  return "";
}

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

DType parse_dtype(nb::handle value) {
  if (DType t{}; nb::try_cast(value, t)) return t;
  return dtype_from_name(dtype_name(value));
}

Device parse_device(nb::handle value) {
  if (nb::isinstance<Device>(value)) return nb::cast<Device>(value);
  if (nb::isinstance<nb::str>(value)) return device_from_name(nb::cast<std::string>(value));
  int64_t index = 0;
  if (!read_int(value, index)) raise_type_error("expected a device, got {}", class_name(value));
  return Device::cuda(static_cast<int>(index));
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
  nb::class_<DTypeObject>(m, "dtype", "The type of a tensor's elements: mica.float32 and so on.")
      .def_prop_ro(
          "name", [](const DTypeObject& d) { return python_name(d.value); }, "\"float32\".")
      .def_prop_ro(
          "itemsize", [](const DTypeObject& d) { return size_of(d.value); },
          "Bytes of one element.")
      .def_prop_ro(
          "is_floating_point", [](const DTypeObject& d) { return is_floating(d.value); },
          "Whether it is a floating one.")
      .def("__repr__",
           [](const DTypeObject& d) { return std::string("mica.") + python_name(d.value); });
  for (const auto& [name, value] : kDTypeNames) {
    const nb::object object = nb::cast(DTypeObject{value});
    m.attr(name) = object;
    dtype_objects[static_cast<size_t>(value)] = object;
  }

  bind_dtype_rules(m);

  nb::class_<Device>(m, "device", "Where a tensor lives: device(\"cpu\"), device(\"cuda:0\").")
      .def(
          "__init__",
          [](Device* self, nb::handle device) { new (self) Device(parse_device(device)); },
          "device"_a)
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
