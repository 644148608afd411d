#pragma once

#include <array>

#include "mica/core/tensor.h"

// Tensors of values and memory that a program has already.
namespace mica {

/// Called with the pointer when the last tensor on foreign memory is gone.
using Deleter = std::function<void(void*)>;

/// A tensor on memory that stays where it is, `device` says where; nothing is copied. `strides`
/// count elements, row-major where there are none. The memory must live as long as tensors on it;
/// with a deleter they own it. What writes to it besides must not be missed: while a compiled
/// function uses it, its values are looked at anew in each run.
Tensor from_blob(void* data, const Shape& shape, const Strides& strides, TensorOptions options,
                 Deleter deleter = {});
template <class T>
  requires(!std::is_void_v<T>)
Tensor from_blob(T* data, const Shape& shape, const Strides& strides = {}, Deleter deleter = {},
                 Device device = {}) {
  static_assert(!std::is_const_v<T>,
                "mica: from_blob takes memory that may be written to; tensor() copies the other");
  return from_blob(static_cast<void*>(data), shape, strides, {dtype_of<T>, device},
                   std::move(deleter));
}
template <class T, std::invocable<void*> D>
  requires(!std::is_void_v<T>)
Tensor from_blob(T* data, const Shape& shape, D deleter, Device device = {}) {
  return from_blob(data, shape, Strides(), Deleter(std::move(deleter)), device);
}

/// One value, without axes, of the dtype that holds its type; scalar() is of the dtype it is told.
template <class T>
  requires std::is_arithmetic_v<T>
Tensor tensor(T value) {
  return tensor({value}, Shape());
}

// One axis of values.
template <class T, size_t n>
Tensor tensor(std::span<T, n> values) {
  return tensor(std::span<const std::remove_const_t<T>>(values),
                {static_cast<int64_t>(values.size())});
}
template <class T, size_t n>
Tensor tensor(const T (&values)[n]) {
  return tensor(std::span<const T>(values));
}
template <class T>
Tensor tensor(const std::vector<T>& values) {
  return tensor(values, {static_cast<int64_t>(values.size())});
}
template <class T, size_t n>
Tensor tensor(const std::array<T, n>& values) {
  return tensor(std::span<const T>(values), {static_cast<int64_t>(n)});
}
template <class T, size_t n>
Tensor tensor(const std::array<T, n>& values, const Shape& shape, Device device = {}) {
  return tensor(std::span<const T>(values), shape, device);
}

// Nested lists, `tensor({{1.0F, 2.0F}, {3.0F, 4.0F}})`; all rows have the same length.
namespace detail {
/// Flattens nested lists and notes their lengths.
template <class T>
class ListReader {
 public:
  template <class L>
  void read(const L& list, int depth) {
    if (depth == shape_.rank()) shape_.push_back(static_cast<int64_t>(list.size()));
    check_length(shape_[depth], list.size());
    for (const auto& entry : list) {
      if constexpr (std::is_same_v<std::remove_cvref_t<decltype(entry)>, T>) {
        values_.push_back(entry);
      } else {
        read(entry, depth + 1);
      }
    }
  }
  Tensor tensor() const { return mica::tensor(values_, shape_); }

 private:
  static void check_length(int64_t expected, size_t length);
  std::vector<T> values_;
  Shape shape_;
};
/// Raises ShapeError unless they are the same.
void check_row(int64_t expected, size_t length);
template <class T>
void ListReader<T>::check_length(int64_t expected, size_t length) {
  check_row(expected, length);
}
template <class T, class L>
Tensor of_list(const L& list) {
  ListReader<T> reader;
  reader.read(list, 0);
  return reader.tensor();
}
}  // namespace detail

template <class T>
Tensor tensor(std::initializer_list<T> values) {
  return detail::of_list<T>(values);
}
template <class T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> values) {
  return detail::of_list<T>(values);
}
template <class T>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> values) {
  return detail::of_list<T>(values);
}
template <class T>
Tensor tensor(
    std::initializer_list<std::initializer_list<std::initializer_list<std::initializer_list<T>>>>
        values) {
  return detail::of_list<T>(values);
}

}  // namespace mica
