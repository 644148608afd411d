#include "mica/core/dims.h"

#include <algorithm>
#include <ostream>

#include "mica/core/check.h"

namespace mica {

Dims::Dims(std::span<const int64_t> values) {
  check<ShapeError>(values.size() <= kMaxRank, "a tensor has at most {} dimensions, got {}",
                    kMaxRank, values.size());
  std::copy(values.begin(), values.end(), values_.begin());
  rank_ = static_cast<int64_t>(values.size());
}

Dims Dims::filled(int rank, int64_t value) {
  Dims dims;
  for (int i = 0; i < rank; ++i) dims.push_back(value);
  return dims;
}

void Dims::push_back(int64_t value) {
  check<ShapeError>(rank_ < kMaxRank, "a tensor has at most {} dimensions", kMaxRank);
  values_[static_cast<size_t>(rank_++)] = value;
}

bool Dims::contains(int64_t value) const { return std::find(begin(), end(), value) != end(); }

namespace {

/// n times a size of `shape`. A product past 2^63 raises, unless the shape has no elements at all.
int64_t times(int64_t n, int64_t size, const Shape& shape) {
  if (__builtin_mul_overflow(n, size, &n))
    check<ShapeError>(shape.contains(0), "shape {} has more than 2^63 elements", shape);
  return n;
}

}  // namespace

int64_t numel(const Shape& shape) {
  int64_t n = 1;
  for (const int64_t d : shape) {
    if (d < 0) fail<ShapeError>("shape {} has a negative size", shape);
    n = times(n, d, shape);
  }
  return n;
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides = shape;
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    step = times(step, std::max<int64_t>(shape[i], 1), shape);
  }
  return strides;
}

Strides channels_last_strides(const Shape& shape) {
  check<ShapeError>(shape.rank() == 4, "channels_last needs 4 dimensions, got {}", shape);
  const int64_t c = std::max<int64_t>(shape[1], 1);
  const int64_t h = std::max<int64_t>(shape[2], 1);
  const int64_t w = std::max<int64_t>(shape[3], 1);
  const int64_t row = times(c, w, shape);
  return {times(row, h, shape), 1, row, c};
}

Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op) {
  Shape out = a.rank() >= b.rank() ? a : b;
  const Shape& small = a.rank() >= b.rank() ? b : a;
  const int shift = out.rank() - small.rank();
  for (int i = 0; i < small.rank(); ++i) {
    int64_t& d = out[i + shift];
    if (d == 1) {
      d = small[i];
    } else if (small[i] != 1 && small[i] != d) {
      fail<ShapeError>("{}: shapes {} and {} do not broadcast (dimension {}: {} and {})", op, a, b,
                       i + shift, d, small[i]);
    }
  }
  return out;
}

int normalize_axis(int64_t axis, int rank, const char* op) {
  check<IndexError>(axis >= -rank && axis < rank, "{}: axis must be in [{}, {}), got {}", op, -rank,
                    rank, axis);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::string to_string(const Dims& dims) {
  std::string s = "[";
  for (int i = 0; i < dims.rank(); ++i) s += fmt::format("{}{}", i ? ", " : "", dims[i]);
  return s + "]";
}

std::ostream& operator<<(std::ostream& stream, const Dims& dims) {
  return stream << to_string(dims);
}

}  // namespace mica
