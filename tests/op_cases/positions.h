#pragma once

#include <cstdint>
#include <vector>

#include "tests/op_cases/op_case.h"

namespace mica::cases {

using Position = std::vector<int64_t>;

/// Calls f with each position of a shape, in row-major order.
template <class F>
void each_position(const Shape& shape, F&& f) {
  Position at(static_cast<size_t>(shape.rank()));
  for (int64_t n = numel(shape); n > 0; --n) {
    f(at);
    for (size_t i = at.size(); i-- > 0 && ++at[i] == shape[static_cast<int>(i)];) at[i] = 0;
  }
}

/// Where the element at a position stands in row-major order.
inline size_t flat(const Shape& shape, const Position& at) {
  int64_t n = 0;
  for (int i = 0; i < shape.rank(); ++i) n = n * shape[i] + at[static_cast<size_t>(i)];
  return static_cast<size_t>(n);
}

/// The element of `a` at a position of a shape that it broadcasts to.
inline double broadcast_at(const HostArray& a, const Position& at) {
  Position own(at.end() - a.shape.rank(), at.end());
  for (int i = 0; i < a.shape.rank(); ++i)
    if (a.shape[i] == 1) own[static_cast<size_t>(i)] = 0;
  return a.values[flat(a.shape, own)];
}

}  // namespace mica::cases
