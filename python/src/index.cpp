// t[key]: slices along axes, then one reshape that drops and adds axes of size 1, then whatever
// arrays of indices remain.
#include <nanobind/ndarray.h>

#include <algorithm>

#include "python/src/bindings.h"

namespace mica::python {
namespace {

/// One part of a key. An array of integers indexes one axis, a mask as many as it has.
struct Entry {
  nb::object value;
  Tensor array;

  int axes() const {
    if (array.defined() && array.dtype() == DType::boolean) return array.rank();
    return value.is_none() || value.is(Py_Ellipsis) ? 0 : 1;
  }
};

bool is_array(nb::handle value) {
  return nb::isinstance<Tensor>(value) || PyList_Check(value.ptr()) || nb::ndarray_check(value);
}

std::vector<Entry> entries_of(nb::handle key) {
  std::vector<Entry> entries;
  const auto add_entry = [&](nb::handle value) {
    Entry e{nb::borrow(value), {}};
    if (nb::isinstance<Tensor>(value)) {
      e.array = nb::cast<Tensor>(value);
    } else if (is_array(value)) {
      e.array = tensor_from(value, nb::none(), nb::none());
      if (e.array.numel() == 0 && is_floating(e.array.dtype())) e.array = cast(e.array, DType::i64);
    }
    entries.push_back(std::move(e));
  };
  if (nb::isinstance<nb::tuple>(key)) {
    for (const nb::handle value : nb::borrow<nb::tuple>(key)) add_entry(value);
  } else {
    add_entry(key);
  }
  return entries;
}

}  // namespace

Tensor get_item(const Tensor& t, nb::handle key) {
  const std::vector<Entry> entries = entries_of(key);
  const bool has_ellipsis =
      std::ranges::any_of(entries, [](const Entry& e) { return e.value.is(Py_Ellipsis); });
  int used = 0;
  for (const Entry& e : entries) used += e.axes();
  check<IndexError>(used <= t.rank(), "index: {} indices for a tensor of shape {}", used,
                    t.shape());

  Tensor result = t;
  Shape shape;
  Tensors arrays;   // for the axes of `shape`, undefined where one is not indexed
  int covered = 0;  // axes that `arrays` are for: a mask stands for several
  int axis = 0;
  const auto keep_axes = [&](int n) {
    for (int i = 0; i < n; ++i) shape.push_back(result.shape()[axis++]);
  };
  for (const Entry& e : entries) {
    int64_t i = 0;
    if (e.array.defined()) {
      arrays.resize(arrays.size() + static_cast<size_t>(shape.rank() - covered));
      arrays.push_back(e.array);
      keep_axes(e.axes());
      covered = shape.rank();
    } else if (e.value.is_none()) {
      shape.push_back(1);
    } else if (e.value.is(Py_Ellipsis)) {
      keep_axes(t.rank() - used);
    } else if (nb::isinstance<nb::slice>(e.value)) {
      const int64_t n = result.shape()[axis];
      const auto [start, stop, step, length] =
          nb::borrow<nb::slice>(e.value).compute(static_cast<size_t>(n));
      // Counted from the end, as for Python, -1 is the last element: before the first is -n - 1.
      if (step < 0 || length != static_cast<size_t>(n))
        result = slice(result, axis, start, stop < 0 ? -n - 1 : stop, step);
      keep_axes(1);
    } else if (!PyBool_Check(e.value.ptr()) && read_int(e.value, i)) {
      const int64_t n = t.shape()[axis];
      check<IndexError>(i >= -n && i < n, "index: {} is out of range for axis {} of shape {}", i,
                        axis, t.shape());
      const int64_t at = i < 0 ? i + n : i;
      result = slice(result, axis++, at, at + 1);
    } else {
      raise_type_error("index: expected integers, slices, ..., None or arrays, got {}",
                       class_name(e.value));
    }
  }
  if (!has_ellipsis) keep_axes(t.rank() - used);
  if (shape != result.shape()) result = reshape(result, shape);
  return arrays.empty() ? result : without_gil([&] { return index(result, arrays); });
}

}  // namespace mica::python
