// t[key] as NumPy has it.
#include <nanobind/ndarray.h>

#include <algorithm>

#include "mica/ops/index/key.h"
#include "python/src/bindings.h"

namespace mica::python {
namespace {

bool is_array(nb::handle value) {
  PyObject* p = value.ptr();
  return PyList_Check(p) || PyTuple_Check(p) || PyBool_Check(p) || nb::ndarray_check(value);
}

TensorIndex slice_of(nb::handle value) {
  Py_ssize_t start = 0;
  Py_ssize_t stop = 0;
  Py_ssize_t step = 0;
  // What is left out comes as far beyond the ends as numbers go, and is cut there.
  if (PySlice_Unpack(value.ptr(), &start, &stop, &step) < 0) nb::raise_python_error();
  return Slice(start, stop, step);
}

TensorIndex entry_of(nb::handle value) {
  if (const Tensor* t = tensor_or_null(value)) return *t;
  if (value.is_none()) return NoneIndex();
  if (value.is(Py_Ellipsis)) return EllipsisIndex();
  if (PySlice_Check(value.ptr())) return slice_of(value);
  if (PyRange_Check(value.ptr())) {
    const nb::list numbers = nb::list(nb::borrow(value));
    return tensor_from(numbers, nb::cast(DType::i64), nb::none());
  }
  if (!PyLong_CheckExact(value.ptr()) && is_array(value)) {
    const Tensor array = tensor_from(value, nb::none(), nb::none());
    return array.numel() == 0 && is_floating(array.dtype()) ? cast(array, DType::i64) : array;
  }
  int64_t i = 0;
  if (read_int(value, i)) return i;
  check<IndexError>(!PyLong_Check(value.ptr()), "index: an integer is too large");
  raise_type_error("index: expected integers, slices, ..., None or arrays, got {}",
                   class_name(value));
}

KeyPlace place_of(const Tensor& t, nb::handle key) {
  std::vector<TensorIndex> entries;
  if (nb::isinstance<nb::tuple>(key)) {
    for (const nb::handle value : nb::borrow<nb::tuple>(key)) entries.push_back(entry_of(value));
  } else {
    entries.push_back(entry_of(key));
  }
  const bool has_arrays = std::ranges::any_of(
      entries, [](const TensorIndex& i) { return i.get_if<Tensor>() != nullptr; });
  return has_arrays ? without_gil([&] { return locate(t, entries); }) : locate(t, entries);
}

}  // namespace

Tensor get_item(const Tensor& t, nb::handle key) {
  const KeyPlace place = place_of(t, key);
  return place.is_view() ? place.view : without_gil([&] { return place.read(); });
}

void set_item(const Tensor& t, nb::handle key, nb::handle value) {
  const Tensor source = source_for(t, value);
  const KeyPlace place = place_of(t, key);
  without_gil([&] { place.write(source); });
}

void bind_indexing_methods(nb::class_<Tensor>& tensor) {
  tensor.def("__getitem__", get_item, nb::arg("key").none());
  tensor.def("__setitem__", set_item, nb::arg("key").none(), "value"_a);
}

}  // namespace mica::python
