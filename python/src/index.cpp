// t[key]: slices along axes, then one reshape that drops and adds axes of size 1.
#include <algorithm>

#include "python/src/bindings.h"

namespace mica::python {
namespace {

std::vector<nb::object> entries_of(nb::handle key) {
  std::vector<nb::object> entries;
  if (!nb::isinstance<nb::tuple>(key)) return {nb::borrow(key)};
  for (const nb::handle entry : nb::borrow<nb::tuple>(key)) entries.push_back(nb::borrow(entry));
  return entries;
}

}  // namespace

Tensor get_item(const Tensor& t, nb::handle key) {
  const std::vector<nb::object> entries = entries_of(key);
  const bool has_ellipsis =
      std::ranges::any_of(entries, [](const auto& e) { return e.is(Py_Ellipsis); });
  int used = 0;
  for (const nb::object& e : entries) used += e.is_none() || e.is(Py_Ellipsis) ? 0 : 1;
  check<IndexError>(used <= t.rank(), "index: {} indices for a tensor of shape {}", used,
                    t.shape());

  Tensor result = t;
  Shape shape;
  int axis = 0;
  const auto keep_axes = [&](int n) {
    for (int i = 0; i < n; ++i) shape.push_back(result.shape()[axis++]);
  };
  for (const nb::object& e : entries) {
    int64_t i = 0;
    if (e.is_none()) {
      shape.push_back(1);
    } else if (e.is(Py_Ellipsis)) {
      keep_axes(t.rank() - used);
    } else if (nb::isinstance<nb::slice>(e)) {
      const int64_t n = result.shape()[axis];
      const auto [start, stop, step, length] =
          nb::borrow<nb::slice>(e).compute(static_cast<size_t>(n));
      // Counted from the end, as for Python, -1 is the last element: before the first is -n - 1.
      if (step < 0 || length != static_cast<size_t>(n))
        result = slice(result, axis, start, stop < 0 ? -n - 1 : stop, step);
      keep_axes(1);
    } else if (!PyBool_Check(e.ptr()) && read_int(e, i)) {
      const int64_t n = t.shape()[axis];
      check<IndexError>(i >= -n && i < n, "index: {} is out of range for axis {} of shape {}", i,
                        axis, t.shape());
      const int64_t at = i < 0 ? i + n : i;
      result = slice(result, axis++, at, at + 1);
    } else {
      raise_type_error("index: expected integers, slices, ... or None, got {}", class_name(e));
    }
  }
  if (!has_ellipsis) keep_axes(t.rank() - used);
  return shape == result.shape() ? result : reshape(result, shape);
}

}  // namespace mica::python
