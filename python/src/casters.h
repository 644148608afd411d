#pragma once

// How small value types cross between Python and C++.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "mica/core/dims.h"
#include "mica/core/dtype.h"
#include "mica/core/number.h"
#include "mica/core/state_dict.h"

namespace mica::python {

/// What `mica.float32` is.
struct DTypeObject {
  DType value;
};
/// The one Python object of a dtype, so that `t.dtype is mica.float32`; a borrowed reference.
nanobind::handle dtype_object(DType t);

/// Entry i of a list or tuple; null, without an error, past its end. It is what the list holds, as
/// NumPy reads lists, whatever a derived class defines; and a list may become shorter while its
/// entries are looked at.
inline nanobind::object entry_of(nanobind::handle list, Py_ssize_t i) noexcept {
  const bool is_list = PyList_Check(list.ptr());
  const Py_ssize_t n = is_list ? PyList_Size(list.ptr()) : PyTuple_Size(list.ptr());
  if (i >= n) return {};
  return nanobind::borrow(is_list ? PyList_GetItem(list.ptr(), i) : PyTuple_GetItem(list.ptr(), i));
}

/// True and the value when it is an int, or has __index__.
bool read_int(nanobind::handle value, int64_t& result) noexcept;
/// True and the number when it is a bool, an int, a float, a complex, or an object that says it is
/// one of them. Integers keep their digits up to 64 bits; a larger one is a float.
bool read_number(nanobind::handle value, Number& result) noexcept;
/// Whether it is a complex number of Python or NumPy.
bool is_complex_number(nanobind::handle value) noexcept;

}  // namespace mica::python

namespace nanobind::detail {

/// A tuple of ints; from a list, tuple or one int.
template <>
struct type_caster<mica::Dims> {
  NB_TYPE_CASTER(mica::Dims, io_name("int | collections.abc.Sequence[int]", "tuple[int, ...]"))

  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    value = {};
    int64_t one = 0;
    if (mica::python::read_int(source, one)) {
      value.push_back(one);
      return true;
    }
    if (!PyTuple_Check(source.ptr()) && !PyList_Check(source.ptr())) return false;
    for (Py_ssize_t i = 0; const object entry = mica::python::entry_of(source, i); ++i) {
      if (i == mica::Dims::kMaxRank || !mica::python::read_int(entry, one)) return false;
      value.push_back(one);
    }
    return true;
  }
  static handle from_cpp(const mica::Dims& dims, rv_policy, cleanup_list*) noexcept {
    PyObject* tuple = PyTuple_New(dims.rank());
    for (int i = 0; tuple && i < dims.rank(); ++i)
      PyTuple_SetItem(tuple, i, PyLong_FromLongLong(dims[i]));
    return tuple;
  }
};

/// A height and a width; from one int or a pair.
template <>
struct type_caster<mica::Size2> {
  NB_TYPE_CASTER(mica::Size2, io_name("int | collections.abc.Sequence[int]", "tuple[int, int]"))

  bool from_python(handle source, uint32_t flags, cleanup_list* cleanup) noexcept {
    make_caster<mica::Dims> dims;
    if (!dims.from_python(source, flags, cleanup)) return false;
    const mica::Dims& d = dims.value;
    if (d.rank() != 1 && d.rank() != 2) return false;
    value = d.rank() == 1 ? mica::Size2(d[0]) : mica::Size2(d[0], d[1]);
    return true;
  }
  static handle from_cpp(mica::Size2 size, rv_policy policy, cleanup_list* cleanup) noexcept {
    return make_caster<mica::Dims>::from_cpp(mica::Dims{size.h, size.w}, policy, cleanup);
  }
};

/// A depth, a height and a width; from one int or three.
template <>
struct type_caster<mica::Size3> {
  NB_TYPE_CASTER(mica::Size3,
                 io_name("int | collections.abc.Sequence[int]", "tuple[int, int, int]"))

  bool from_python(handle source, uint32_t flags, cleanup_list* cleanup) noexcept {
    make_caster<mica::Dims> dims;
    if (!dims.from_python(source, flags, cleanup)) return false;
    const mica::Dims& d = dims.value;
    if (d.rank() != 1 && d.rank() != 3) return false;
    value = d.rank() == 1 ? mica::Size3(d[0]) : mica::Size3(d[0], d[1], d[2]);
    return true;
  }
  static handle from_cpp(mica::Size3 size, rv_policy policy, cleanup_list* cleanup) noexcept {
    return make_caster<mica::Dims>::from_cpp(mica::Dims{size.d, size.h, size.w}, policy, cleanup);
  }
};

/// A bool, an int, a float or a complex, each as it is.
template <>
struct type_caster<mica::Number> {
  NB_TYPE_CASTER(mica::Number, const_name("float"))

  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    return mica::python::read_number(source, value);
  }
  static handle from_cpp(mica::Number n, rv_policy, cleanup_list*) noexcept {
    switch (n.kind()) {
      case mica::Number::Kind::boolean:
        return PyBool_FromLong(n.as<bool>() ? 1 : 0);
      case mica::Number::Kind::integer:
        return PyLong_FromLongLong(n.as<int64_t>());
      case mica::Number::Kind::unsigned_integer:
        return PyLong_FromUnsignedLongLong(n.as<uint64_t>());
      case mica::Number::Kind::complex:
        return PyComplex_FromDoubles(n.to_double(), n.imag());
      case mica::Number::Kind::floating:
        break;
    }
    return PyFloat_FromDouble(n.to_double());
  }
};

template <>
struct type_caster<mica::DType> {
  NB_TYPE_CASTER(mica::DType, const_name("mica.dtype"))

  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    mica::python::DTypeObject* object = nullptr;
    if (!try_cast(source, object, false) || !object) return false;
    value = object->value;
    return true;
  }
  static handle from_cpp(mica::DType t, rv_policy, cleanup_list*) noexcept {
    return mica::python::dtype_object(t).inc_ref();
  }
};

/// A dict of tensors, in its order.
template <>
struct type_caster<mica::StateDict> {
  using TensorCaster = make_caster<mica::Tensor>;
  NB_TYPE_CASTER(mica::StateDict, const_name("dict[str, ") + TensorCaster::Name + const_name("]"))

  bool from_python(handle source, uint32_t flags, cleanup_list* cleanup) noexcept {
    value = {};
    const object items = steal(PyMapping_Items(source.ptr()));
    if (!items.is_valid()) {
      PyErr_Clear();
      return false;
    }
    for (Py_ssize_t i = 0; const object item = mica::python::entry_of(items, i); ++i) {
      const object name = mica::python::entry_of(item, 0);
      const object tensor = mica::python::entry_of(item, 1);
      make_caster<std::string> text;
      TensorCaster caster;
      if (!name.is_valid() || !tensor.is_valid() || !text.from_python(name, flags, cleanup) ||
          !caster.from_python(tensor, flags, cleanup))
        return false;
      value.emplace(std::move(text.value), caster.operator mica::Tensor&());
    }
    return true;
  }
  static handle from_cpp(const mica::StateDict& state, rv_policy policy,
                         cleanup_list* cleanup) noexcept {
    dict result;
    for (const auto& [name, tensor] : state) {
      const object made =
          steal(TensorCaster::from_cpp(mica::Tensor(tensor), rv_policy::move, cleanup));
      const object key = steal(make_caster<std::string>::from_cpp(name, policy, cleanup));
      if (!made.is_valid() || !key.is_valid() ||
          PyDict_SetItem(result.ptr(), key.ptr(), made.ptr()) != 0)
        return {};
    }
    return result.release();
  }
};

}  // namespace nanobind::detail
