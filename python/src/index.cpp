// t[key] as NumPy has it: slices along axes, then one reshape that drops and adds axes of size 1,
// then whatever arrays of indices remain.
#include <nanobind/ndarray.h>

#include <algorithm>

#include "python/src/bindings.h"

namespace mica::python {
namespace {

/// One part of a key. An array of integers indexes one axis, a mask as many as it has.
struct Entry {
  nb::object value;
  Tensor array;

  bool is_mask() const { return array.defined() && array.dtype() == DType::boolean; }
  int axes() const {
    if (is_mask()) return array.rank();
    return value.is_none() || value.is(Py_Ellipsis) ? 0 : 1;
  }
  /// Neither of what stands between neighbouring indices: slices, None and Ellipsis.
  bool is_index() const {
    return !value.is_none() && !value.is(Py_Ellipsis) && !PySlice_Check(value.ptr());
  }
};

bool is_array(nb::handle value) {
  PyObject* p = value.ptr();
  return PyList_Check(p) || PyTuple_Check(p) || PyBool_Check(p) || nb::ndarray_check(value);
}

Entry entry_of(nb::handle value, Device device) {
  Entry e{nb::borrow(value), {}};
  if (const Tensor* t = tensor_or_null(value)) {
    e.array = *t;
  } else if (value.is_none() || value.is(Py_Ellipsis) || PySlice_Check(value.ptr()) ||
             PyLong_CheckExact(value.ptr())) {
    return e;
  } else if (is_array(value)) {
    e.array = tensor_from(value, nb::none(), nb::none());
    if (e.array.numel() == 0 && is_floating(e.array.dtype())) e.array = cast(e.array, DType::i64);
  }
  if (e.array.defined()) {
    check<IndexError>(!is_floating(e.array.dtype()),
                      "index: arrays used as indices must be of integers or bool, got {}",
                      e.array.dtype());
    if (e.array.device().is_cpu()) e.array = without_gil([&] { return to(e.array, device); });
  }
  return e;
}

std::vector<Entry> entries_of(nb::handle key, Device device) {
  std::vector<Entry> entries;
  if (nb::isinstance<nb::tuple>(key)) {
    for (const nb::handle value : nb::borrow<nb::tuple>(key))
      entries.push_back(entry_of(value, device));
  } else {
    entries.push_back(entry_of(key, device));
  }
  return entries;
}

/// Arrays with a slice, None or Ellipsis between them, where integers count as arrays of one: their
/// axes come first in the result.
bool are_separated(const std::vector<Entry>& entries) {
  const auto first = std::ranges::find_if(entries, &Entry::is_index);
  const auto end = std::find_if_not(first, entries.end(), std::mem_fn(&Entry::is_index));
  return std::any_of(end, entries.end(), std::mem_fn(&Entry::is_index));
}

/// Where a key points: a view of the tensor, the axes of it that go backwards, and arrays of
/// indices for its leading axes, undefined where one is not indexed.
struct Place {
  Tensor view;
  Dims backwards;
  Tensors arrays;

  Tensor forwards() const { return backwards.empty() ? view : flip(view, backwards); }
};

/// Goes through a key from left to right.
class Locator {
 public:
  Locator(const Tensor& t, const std::vector<Entry>& entries) : source_(t), view_(t) {
    int used = 0;
    bool has_ellipsis = false;
    for (const Entry& e : entries) {
      used += e.axes();
      if (e.value.is(Py_Ellipsis))
        check<IndexError>(!std::exchange(has_ellipsis, true), "index: more than one Ellipsis");
    }
    check<IndexError>(used <= t.rank(), "index: {} indices for a tensor of shape {}", used,
                      t.shape());
    for (const Entry& e : entries) add_entry(e, t.rank() - used);
    if (!has_ellipsis) keep_axes(t.rank() - used);
  }

  Place finish(bool separated) && {
    if (shape_ != view_.shape()) view_ = reshape(view_, shape_);
    if (separated && !arrays_.empty()) bring_to_front();
    return {view_, backwards_, arrays_};
  }

 private:
  void keep_axes(int n) {
    for (int i = 0; i < n; ++i) shape_.push_back(view_.shape()[axis_++]);
  }

  void add_entry(const Entry& e, int ellipsis_axes) {
    if (e.array.defined()) {
      add_array(e);
    } else if (e.value.is_none()) {
      shape_.push_back(1);
    } else if (e.value.is(Py_Ellipsis)) {
      keep_axes(ellipsis_axes);
    } else if (PySlice_Check(e.value.ptr())) {
      add_slice(e.value);
    } else if (int64_t i = 0; read_int(e.value, i)) {
      const int64_t n = source_.shape()[axis_];
      check<IndexError>(i >= -n && i < n, "index: {} is out of range for axis {} of shape {}", i,
                        axis_, source_.shape());
      const int64_t at = i < 0 ? i + n : i;
      view_ = slice(view_, axis_++, at, at + 1);
    } else {
      check<IndexError>(!PyLong_Check(e.value.ptr()), "index: an integer is too large");
      raise_type_error("index: expected integers, slices, ..., None or arrays, got {}",
                       class_name(e.value));
    }
  }

  void add_array(const Entry& e) {
    arrays_.resize(arrays_.size() + static_cast<size_t>(shape_.rank() - covered_));
    if (e.is_mask() && e.array.rank() == 0) {
      // True keeps everything, False nothing, along an axis of its own.
      shape_.push_back(1);
      const int64_t n = without_gil([&] { return e.array.item(); }) != 0 ? 1 : 0;
      arrays_.push_back(zeros({n}, {DType::i64, source_.device()}));
    } else {
      arrays_.push_back(e.array);
      keep_axes(e.axes());
    }
    covered_ = shape_.rank();
  }

  void add_slice(nb::handle value) {
    Py_ssize_t start = 0;
    Py_ssize_t stop = 0;
    Py_ssize_t step = 0;
    if (PySlice_Unpack(value.ptr(), &start, &stop, &step) < 0) nb::raise_python_error();
    const int64_t n = view_.shape()[axis_];
    const int64_t length = PySlice_AdjustIndices(n, &start, &stop, step);
    if (step < 0) {
      // The same elements forwards.
      backwards_.push_back(shape_.rank());
      start = length == 0 ? 0 : start + (length - 1) * step;
      step = -step;
    }
    if (length != n)
      view_ = slice(view_, axis_, start, length == 0 ? start : start + (length - 1) * step + 1,
                    std::min<int64_t>(step, std::max<int64_t>(n, 1)));
    keep_axes(1);
  }

  void bring_to_front() {
    Dims order;
    Tensors indices;
    int axis = 0;
    for (const Tensor& a : arrays_) {
      const int axes = a.defined() && a.dtype() == DType::boolean ? a.rank() : 1;
      for (int i = 0; i < axes; ++i, ++axis)
        if (a.defined()) order.push_back(axis);
      if (a.defined()) indices.push_back(a);
    }
    for (int i = 0; i < view_.rank(); ++i)
      if (!order.contains(i)) order.push_back(i);
    view_ = permute(view_, order);
    for (int64_t& b : backwards_) b = std::ranges::find(order, b) - order.begin();
    arrays_ = indices;
  }

  const Tensor& source_;
  Tensor view_;
  Shape shape_;     // of the view in the end
  Dims backwards_;  // axes of shape_
  Tensors arrays_;
  int covered_ = 0;  // axes of shape_ that arrays_ are for: a mask stands for several
  int axis_ = 0;     // of view_
};

Place locate(const Tensor& t, nb::handle key) {
  const std::vector<Entry> entries = entries_of(key, t.device());
  return Locator(t, entries).finish(are_separated(entries));
}

/// Whether a write to the one may change what is read from the other.
bool may_overlap(const Tensor& a, const Tensor& b) {
  return a.impl()->storage == b.impl()->storage;
}

}  // namespace

Tensor get_item(const Tensor& t, nb::handle key) {
  const Place place = locate(t, key);
  if (place.backwards.empty() && place.arrays.empty()) return place.view;
  return without_gil([&] {
    const Tensor x = place.forwards();
    return place.arrays.empty() ? x : index(x, place.arrays);
  });
}

void set_item(const Tensor& t, nb::handle key, nb::handle value) {
  Tensor source = source_for(t, value);
  const Place place = locate(t, key);
  without_gil([&] {
    const Tensor& view = place.view;
    // NumPy lets a value have more axes of size 1 in front than its place.
    while (place.arrays.empty() && source.rank() > view.rank() && source.shape()[0] == 1)
      source = squeeze(source, {0});
    if (!place.arrays.empty()) {
      source = cast(to(source, t.device()), t.dtype());
      source = index_put(place.forwards(), place.arrays, source);
    } else if (!place.backwards.empty()) {
      source = expand(source, view.shape());
    }
    if (!place.backwards.empty()) source = flip(source, place.backwards);
    copy_(view, may_overlap(view, source) ? clone(source) : source);
  });
}

void bind_indexing_methods(nb::class_<Tensor>& tensor) {
  tensor.def("__getitem__", get_item, nb::arg("key").none());
  tensor.def("__setitem__", set_item, nb::arg("key").none(), "value"_a);
}

}  // namespace mica::python
