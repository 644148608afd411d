#pragma once

#include <cstdint>
#include <random>
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

/// Whole numbers in [low, high).
inline std::vector<double> random_indices(const Shape& shape, int64_t low, int64_t high,
                                          uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<double> values(static_cast<size_t>(numel(shape)));
  for (double& v : values)
    v = static_cast<double>(low +
                            static_cast<int64_t>(random() % static_cast<uint64_t>(high - low)));
  return values;
}

/// Random truth.
inline Input mask_of(const Shape& shape, uint64_t seed) {
  return x(shape).of(random_indices(shape, 0, 2, seed)).as<DType::boolean>();
}

}  // namespace mica::cases
