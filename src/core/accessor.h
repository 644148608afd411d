#pragma once

#include <array>
#include <concepts>
#include <type_traits>

#include "mica/core/tensor.h"

namespace mica {

namespace detail {
[[noreturn]] void raise_out_of_range(int64_t index, size_t axis, int64_t size);
void check_accessible(const Tensor& tensor, int rank);
}  // namespace detail

/// The elements of a CPU tensor by index. `a[i][j]` does not check the index, `a.at(i, j)` does. It
/// does not keep the tensor's memory alive.
template <class T, int n>
class Accessor {
 public:
  static_assert(n >= 1 && n <= Dims::kMaxRank,
                "mica: an accessor has one to eight axes; a 0-d tensor has item()");

  Accessor(T* data, const int64_t* shape, const int64_t* strides) : data_(data) {
    for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
      shape_[i] = shape[i];
      strides_[i] = strides[i];
    }
  }

  int64_t size(int axis) const { return shape_[static_cast<size_t>(axis)]; }
  int64_t stride(int axis) const { return strides_[static_cast<size_t>(axis)]; }
  T* data() const { return data_; }

  template <std::integral Index>
  decltype(auto) operator[](Index i) const {
    T* at = data_ + static_cast<int64_t>(i) * strides_[0];
    if constexpr (n == 1) {
      return (*at);
    } else {
      return Accessor<T, n - 1>(at, shape_.data() + 1, strides_.data() + 1);
    }
  }

  /// Raises IndexError outside of the tensor.
  template <std::integral... Index>
  T& at(Index... index) const {
    static_assert(sizeof...(Index) == n, "mica: at() takes one index for each axis");
    const std::array<int64_t, static_cast<size_t>(n)> all = {static_cast<int64_t>(index)...};
    T* element = data_;
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i] < 0 || all[i] >= shape_[i]) detail::raise_out_of_range(all[i], i, shape_[i]);
      element += all[i] * strides_[i];
    }
    return *element;
  }

 private:
  T* data_;
  std::array<int64_t, static_cast<size_t>(n)> shape_;
  std::array<int64_t, static_cast<size_t>(n)> strides_;
};

template <class T, int rank>
Accessor<T, rank> Tensor::accessor() const {
  detail::check_accessible(*this, rank);
  return {data_as<std::remove_const_t<T>>(), shape().begin(), strides().begin()};
}

}  // namespace mica
