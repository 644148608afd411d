#pragma once

#include <array>
#include <span>
#include <utility>
#include <vector>

namespace mica {

/// Any number of elements, of which the first N take no memory of their own.
template <class T, int N>
class InlineVector {
 public:
  void add(T value) {
    if (count_ == N) {
      heap_.reserve(2 * N);
      for (T& t : inline_) heap_.push_back(std::move(t));
    }
    if (count_ >= N) {
      heap_.push_back(std::move(value));
    } else {
      inline_[static_cast<size_t>(count_)] = std::move(value);
    }
    ++count_;
  }

  int size() const { return count_; }
  T& operator[](int i) { return span()[static_cast<size_t>(i)]; }
  const T& operator[](int i) const { return span()[static_cast<size_t>(i)]; }
  std::span<T> span() {
    return {count_ > N ? heap_.data() : inline_.data(), static_cast<size_t>(count_)};
  }
  std::span<const T> span() const {
    return {count_ > N ? heap_.data() : inline_.data(), static_cast<size_t>(count_)};
  }

 private:
  std::array<T, N> inline_;
  std::vector<T> heap_;  ///< all of them, where they are more than N
  int count_ = 0;
};

}  // namespace mica
