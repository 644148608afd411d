#pragma once

#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace mica {

/// Any number of elements, of which the first N take no memory of their own. None is made before
/// it is added.
template <class T, int N>
class InlineVector {
  static_assert(std::is_nothrow_move_constructible_v<T>);

 public:
  InlineVector() = default;
  InlineVector(const InlineVector& other) {
    for (const T& t : other.span()) add(t);
  }
  InlineVector(InlineVector&& other) noexcept { take(other); }
  InlineVector& operator=(InlineVector other) noexcept {
    clear();
    take(other);
    return *this;
  }
  ~InlineVector() { clear(); }

  void add(T value) { emplace(std::move(value)); }
  /// The arguments must not lie in this vector.
  template <class... Args>
  T& emplace(Args&&... args) {
    if (count_ == capacity_) grow();
    return *std::construct_at(data() + count_++, std::forward<Args>(args)...);
  }

  int size() const { return count_; }
  T& operator[](int i) { return data()[i]; }
  const T& operator[](int i) const { return data()[i]; }
  std::span<T> span() { return {data(), static_cast<size_t>(count_)}; }
  std::span<const T> span() const { return {data(), static_cast<size_t>(count_)}; }

 private:
  T* data() { return heap_ ? heap_ : reinterpret_cast<T*>(inline_); }
  const T* data() const { return heap_ ? heap_ : reinterpret_cast<const T*>(inline_); }

  void clear() noexcept {
    std::destroy_n(data(), count_);
    if (heap_) std::allocator<T>().deallocate(heap_, static_cast<size_t>(capacity_));
    heap_ = nullptr;
    capacity_ = N;
    count_ = 0;
  }
  void grow() {
    T* larger = std::allocator<T>().allocate(2 * static_cast<size_t>(capacity_));
    std::uninitialized_move_n(data(), count_, larger);
    const int count = count_;
    const int capacity = capacity_;
    clear();
    heap_ = larger;
    count_ = count;
    capacity_ = 2 * capacity;
  }
  /// From another to this one, which is empty.
  void take(InlineVector& other) noexcept {
    if (other.heap_) {
      heap_ = std::exchange(other.heap_, nullptr);
      capacity_ = std::exchange(other.capacity_, N);
      count_ = std::exchange(other.count_, 0);
    } else {
      std::uninitialized_move_n(other.data(), other.count_, data());
      count_ = other.count_;
      other.clear();
    }
  }

  T* heap_ = nullptr;  ///< all of them, where they are more than N
  int count_ = 0;
  int capacity_ = N;
  alignas(T) std::byte inline_[N * sizeof(T)];
};

}  // namespace mica
