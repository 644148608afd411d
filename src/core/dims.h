#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

namespace mica {

/// Up to eight 64-bit sizes, strides or axes, stored inline. Entries past the rank stay zero, so
/// that equal values have equal bytes.
class Dims {
 public:
  static constexpr int kMaxRank = 8;

  constexpr Dims() = default;
  Dims(std::initializer_list<int64_t> values) : Dims(std::span(values.begin(), values.size())) {}
  explicit Dims(std::span<const int64_t> values);
  /// One of them: `sum(x, 0)`, `zeros(5)`.
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Dims(T value) : values_{static_cast<int64_t>(value)}, rank_(1) {}
  template <std::integral T>
  Dims(const std::vector<T>& values) {
    for (const T value : values) push_back(static_cast<int64_t>(value));
  }
  template <std::integral T, size_t n>
  Dims(const std::array<T, n>& values) {
    static_assert(n <= kMaxRank, "mica: a tensor has at most eight dimensions");
    for (const T value : values) push_back(static_cast<int64_t>(value));
  }
  static Dims filled(int rank, int64_t value);

  int rank() const { return static_cast<int>(rank_); }
  bool empty() const { return rank_ == 0; }
  int64_t operator[](int i) const { return values_[static_cast<size_t>(i)]; }
  int64_t& operator[](int i) { return values_[static_cast<size_t>(i)]; }
  int64_t back() const { return values_[static_cast<size_t>(rank_ - 1)]; }
  const int64_t* begin() const { return values_.data(); }
  const int64_t* end() const { return values_.data() + rank_; }
  int64_t* begin() { return values_.data(); }
  int64_t* end() { return values_.data() + rank_; }

  void push_back(int64_t value);
  bool contains(int64_t value) const;

  bool operator==(const Dims& other) const {
    if (rank_ != other.rank_) return false;
    for (int i = 0; i < rank_; ++i)
      if ((*this)[i] != other[i]) return false;
    return true;
  }

 private:
  std::array<int64_t, kMaxRank> values_{};
  int64_t rank_ = 0;
};

using Shape = Dims;
using Strides = Dims;

/// A height and a width: `5` means 5 by 5.
struct Size2 {
  int64_t h = 0;
  int64_t w = 0;

  constexpr Size2() = default;
  constexpr Size2(int64_t both) : h(both), w(both) {}  // NOLINT(google-explicit-constructor)
  constexpr Size2(int64_t height, int64_t width) : h(height), w(width) {}
  bool operator==(const Size2&) const = default;
};

/// A depth, a height and a width: `3` means 3 by 3 by 3.
struct Size3 {
  int64_t d = 0;
  int64_t h = 0;
  int64_t w = 0;

  constexpr Size3() = default;
  constexpr Size3(int64_t all) : d(all), h(all), w(all) {}  // NOLINT(google-explicit-constructor)
  constexpr Size3(int64_t depth, int64_t height, int64_t width) : d(depth), h(height), w(width) {}
  bool operator==(const Size3&) const = default;
};

/// Number of elements; 1 for a scalar. A product past 2^63 raises ShapeError.
int64_t numel(const Shape& shape);

/// Row-major strides of a contiguous tensor.
Strides contiguous_strides(const Shape& shape);

/// Strides of (N, C, H, W) stored as (N, H, W, C).
Strides channels_last_strides(const Shape& shape);

/// NumPy's broadcasting of two shapes; `op` names the operator in the error.
Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op);

/// Maps an axis in [-rank, rank) to [0, rank); `op` names the operator in the error.
int normalize_axis(int64_t axis, int rank, const char* op);

/// "[2, 3]".
std::string to_string(const Dims& dims);
std::ostream& operator<<(std::ostream& stream, const Dims& dims);

}  // namespace mica
