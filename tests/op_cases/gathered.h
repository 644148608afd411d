#pragma once

#include "tests/op_cases/op_case.h"

namespace mica::cases {

/// The place of an index in row-major order.
inline size_t place_of(const Shape& shape, const Dims& index) {
  int64_t at = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) at = at * shape[axis] + index[axis];
  return static_cast<size_t>(at);
}

/// Calls f with every index of a shape, in row-major order.
inline void each_index(const Shape& shape, const std::function<void(const Dims&)>& f) {
  Dims index = Dims::filled(shape.rank(), 0);
  for (int64_t i = 0; i < numel(shape); ++i) {
    f(index);
    for (int axis = shape.rank() - 1; axis >= 0 && ++index[axis] == shape[axis]; --axis)
      index[axis] = 0;
  }
}

/// An array that takes each of its elements from another: `source` gives the input's index for an
/// index of the result.
inline std::vector<HostArray> gathered(const HostArray& in, const Shape& shape,
                                       const std::function<Dims(const Dims&)>& source) {
  HostArray out{shape, {}};
  each_index(shape, [&](const Dims& index) {
    out.values.push_back(in.values[place_of(in.shape, source(index))]);
  });
  return {out};
}

}  // namespace mica::cases
