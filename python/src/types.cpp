// dtypes, devices, memory formats, and how arguments name them.
#include <array>

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
    raise_type_error("expected at most {} integers, got {}", Dims::kMaxRank,
                     nb::cast<std::string>(nb::repr(first)));
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
      .def_prop_ro("name", [](const DTypeObject& d) { return python_name(d.value); })
      .def_prop_ro("itemsize", [](const DTypeObject& d) { return size_of(d.value); })
      .def_prop_ro("is_floating_point", [](const DTypeObject& d) { return is_floating(d.value); })
      .def("__repr__",
           [](const DTypeObject& d) { return std::string("mica.") + python_name(d.value); });
  for (const auto& [name, value] : kDTypeNames) {
    const nb::object object = nb::cast(DTypeObject{value});
    m.attr(name) = object;
    dtype_objects[static_cast<size_t>(value)] = object;
  }

  nb::class_<Device>(m, "device", "Where a tensor lives: device(\"cpu\"), device(\"cuda:0\").")
      .def(
          "__init__",
          [](Device* self, nb::handle device) { new (self) Device(parse_device(device)); },
          "device"_a)
      .def_prop_ro("type",
                   [](Device d) {
                     return to_string({d.kind, 0}).substr(0, d.is_cuda() ? 4 : std::string::npos);
                   })
      .def_ro("index", &Device::index)
      .def(
          "__eq__", [](Device a, Device b) { return a == b; }, nb::is_operator())
      .def("__hash__", [](Device d) { return static_cast<int>(d.kind) * 256 + d.index; })
      .def("__str__", [](Device d) { return to_string(d); })
      .def("__repr__", [](Device d) { return "device('" + to_string(d) + "')"; });

  nb::enum_<MemoryFormat>(m, "memory_format")
      .value("contiguous_format", MemoryFormat::contiguous)
      .value("channels_last", MemoryFormat::channels_last)
      .export_values();
}

}  // namespace mica::python
