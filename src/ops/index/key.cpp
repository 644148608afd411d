#include "mica/ops/index/key.h"

#include <algorithm>
#include <string_view>

#include "mica/core/check.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/flip/flip.h"
#include "mica/ops/index/index.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

template <class T>
const T* as(const TensorIndex& i) {
  return i.get_if<T>();
}

bool is_mask(const Tensor& t) { return t.dtype() == DType::boolean; }

/// How many axes of the tensor a part of a key speaks of: an array of integers of one, a mask of as
/// many as it has.
int axes_of(const TensorIndex& i) {
  if (const auto* array = as<Tensor>(i)) return is_mask(*array) ? array->rank() : 1;
  return as<NoneIndex>(i) || as<EllipsisIndex>(i) ? 0 : 1;
}

/// Arrays with a slice, None or Ellipsis between them, where integers count as arrays of one: their
/// axes come first in the result.
bool are_separated(std::span<const TensorIndex> key) {
  const auto is_index = [](const TensorIndex& i) {
    return as<int64_t>(i) != nullptr || as<Tensor>(i) != nullptr;
  };
  const auto first = std::find_if(key.begin(), key.end(), is_index);
  const auto end = std::find_if_not(first, key.end(), is_index);
  return std::any_of(end, key.end(), is_index);
}

/// Goes through a key from left to right.
class Locator {
 public:
  Locator(const Tensor& x, std::span<const TensorIndex> key) : source_(x), view_(x) {
    int used = 0;
    bool has_ellipsis = false;
    for (const TensorIndex& i : key) {
      used += axes_of(i);
      if (as<EllipsisIndex>(i))
        check<IndexError>(!std::exchange(has_ellipsis, true), "index: more than one Ellipsis");
    }
    check<IndexError>(used <= x.rank(), "index: {} indices for a tensor of shape {}", used,
                      x.shape());
    for (const TensorIndex& i : key) add(i, x.rank() - used);
    if (!has_ellipsis) keep_axes(x.rank() - used);
  }

  KeyPlace finish(bool separated) && {
    if (shape_ != view_.shape()) view_ = reshape(view_, shape_);
    if (separated && !arrays_.empty()) bring_to_front();
    return {view_, backwards_, arrays_};
  }

 private:
  void keep_axes(int n) {
    for (int i = 0; i < n; ++i) shape_.push_back(view_.shape()[axis_++]);
  }

  void add(const TensorIndex& i, int ellipsis_axes) {
    if (const auto* array = as<Tensor>(i)) {
      add_array(*array);
    } else if (const auto* part = as<Slice>(i)) {
      add_slice(*part);
    } else if (const auto* at = as<int64_t>(i)) {
      add_integer(*at);
    } else if (as<NoneIndex>(i)) {
      shape_.push_back(1);
    } else {
      keep_axes(ellipsis_axes);
    }
  }

  void add_integer(int64_t i) {
    const int64_t n = source_.shape()[axis_];
    check<IndexError>(i >= -n && i < n, "index: {} is out of range for axis {} of shape {}", i,
                      axis_, source_.shape());
    const int64_t at = i < 0 ? i + n : i;
    view_ = slice(view_, axis_++, at, at + 1);
  }

  void add_array(const Tensor& given) {
    check(given.defined(), "index: an undefined tensor was used as an index");
    check<IndexError>(!is_floating(given.dtype()),
                      "index: arrays used as indices must be of integers or bool, got {}",
                      given.dtype());
    const Tensor array = given.device().is_cpu() ? to(given, source_.device()) : given;
    arrays_.resize(arrays_.size() + static_cast<size_t>(shape_.rank() - covered_));
    if (is_mask(array) && array.rank() == 0) {
      // True keeps everything, False nothing, along an axis of its own.
      shape_.push_back(1);
      arrays_.push_back(zeros({array.item() != 0 ? 1 : 0}, {DType::i64, source_.device()}));
    } else {
      arrays_.push_back(array);
      keep_axes(is_mask(array) ? array.rank() : 1);
    }
    covered_ = shape_.rank();
  }

  void add_slice(const Slice& s) {
    check(s.step != 0, "index: the step of a slice is 0");
    const int64_t n = view_.shape()[axis_];
    const bool back = s.step < 0;
    // A place between -1 and n - 1 where it goes backwards, else between 0 and n.
    const auto place = [&](const SliceBound& bound, int64_t none) {
      if (!bound.value) return none;
      const int64_t from_end =
          *bound.value < 0 ? std::max<int64_t>(*bound.value, -n - 1) + n : *bound.value;
      return std::clamp<int64_t>(from_end, back ? -1 : 0, back ? n - 1 : n);
    };
    // A step past the axis takes one element, whatever it is.
    const int64_t by = std::clamp<int64_t>(s.step, -n - 1, n + 1);
    int64_t start = place(s.start, back ? n - 1 : 0);
    const int64_t stop = place(s.stop, back ? -1 : n);
    const int64_t step = back ? -by : by;
    const int64_t length =
        std::max<int64_t>(((back ? start - stop : stop - start) + step - 1) / step, 0);
    if (back) {
      // The same elements forwards.
      backwards_.push_back(shape_.rank());
      start = length == 0 ? 0 : start - (length - 1) * step;
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
      const int axes = a.defined() && is_mask(a) ? a.rank() : 1;
      for (int i = 0; i < axes; ++i, ++axis)
        if (a.defined()) order.push_back(axis);
      if (a.defined()) indices.push_back(a);
    }
    for (int i = 0; i < view_.rank(); ++i)
      if (!order.contains(i)) order.push_back(i);
    view_ = permute(view_, order);
    for (int64_t& b : backwards_) b = std::find(order.begin(), order.end(), b) - order.begin();
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

/// Whether a write to the one may change what is read from the other.
bool may_overlap(const Tensor& a, const Tensor& b) {
  return a.impl()->storage == b.impl()->storage;
}

}  // namespace

KeyPlace locate(const Tensor& x, std::span<const TensorIndex> key) {
  return Locator(x, key).finish(are_separated(key));
}

Tensor KeyPlace::read() const {
  const Tensor x = backwards.empty() ? view : flip(view, backwards);
  return arrays.empty() ? x : index(x, arrays);
}

void KeyPlace::write(const Tensor& values) const {
  Tensor source = values;
  // NumPy lets a value have more axes of size 1 in front than its place.
  while (arrays.empty() && source.rank() > view.rank() && source.shape()[0] == 1)
    source = squeeze(source, {0});
  if (!arrays.empty()) {
    source = cast(to(source, view.device()), view.dtype());
    source = index_put(backwards.empty() ? view : flip(view, backwards), arrays, source);
  } else if (!backwards.empty()) {
    source = expand(source, view.shape());
  }
  if (!backwards.empty()) source = flip(source, backwards);
  copy_(view, may_overlap(view, source) ? clone(source) : source);
}

TensorIndex::TensorIndex(NoneIndex) : kind_(Kind::none) {}
TensorIndex::TensorIndex(EllipsisIndex) : kind_(Kind::ellipsis) {}
TensorIndex::TensorIndex(Place place) : kind_(Kind::place), at_(place.at) {}
TensorIndex::TensorIndex(const Slice& slice) : kind_(Kind::slice), slice_(slice) {}
TensorIndex::TensorIndex(const Tensor& where) : kind_(Kind::tensor), where_(where) {}
TensorIndex::TensorIndex(const TensorIndex& other) = default;
TensorIndex::TensorIndex(TensorIndex&& other) noexcept = default;
TensorIndex& TensorIndex::operator=(const TensorIndex& other) = default;
TensorIndex& TensorIndex::operator=(TensorIndex&& other) noexcept = default;
TensorIndex::~TensorIndex() = default;

TensorIndex::TensorIndex(const char* text) : TensorIndex(Ellipsis) {
  check<IndexError>(std::string_view(text) == "...",
                    "index: expected \"...\", the only text in a key, got \"{}\"", text);
}

IndexedTensor::IndexedTensor(const Tensor& of, std::vector<TensorIndex> key)
    : of_(of), key_(std::move(key)) {
  const KeyPlace place = locate(of_, key_);
  is_view_ = place.is_view();
  Tensor::operator=(place.read());
}

void IndexedTensor::operator=(const Tensor& values) && { locate(of_, key_).write(values); }

void IndexedTensor::operator=(Number value) && {
  locate(of_, key_).write(scalar(value, {of_.dtype(), of_.device()}));
}

const Tensor& IndexedTensor::written(const Tensor& values) const {
  if (!is_view_) locate(of_, key_).write(values);
  return *this;
}

Tensor Tensor::operator[](int64_t index) const {
  check<IndexError>(rank() > 0, "index: a 0-d tensor has no axis to index");
  return mica::select(*this, 0, index);
}

IndexedTensor Tensor::operator[](const Slice& slice) const { return {*this, {slice}}; }

IndexedTensor Tensor::operator[](const Tensor& where) const { return {*this, {where}}; }

IndexedTensor Tensor::index(std::initializer_list<TensorIndex> key) const { return {*this, key}; }
IndexedTensor Tensor::index(const std::vector<TensorIndex>& key) const { return {*this, key}; }

void Tensor::index_put_(std::initializer_list<TensorIndex> key, const Tensor& values) const {
  locate(*this, std::span(key.begin(), key.size())).write(values);
}
void Tensor::index_put_(std::initializer_list<TensorIndex> key, Number value) const {
  index_put_(key, scalar(value, {dtype(), device()}));
}

void Tensor::operator=(const Tensor& values) && { KeyPlace{*this}.write(values); }
void Tensor::operator=(Number value) && { mica::fill_(*this, value); }

}  // namespace mica
