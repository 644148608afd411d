#pragma once

#include "mica/onnx/call.h"
#include "mica/ops/view/view.h"

namespace mica::onnx {

/// Input 1 of an operator of two, so that it broadcasts with input 0: before version 7 the axis
/// where its own begin was an attribute.
inline Tensor second(const Call& c) {
  Tensor b = c[1];
  if (c.opset() >= 7 || c.integer("broadcast", 0) == 0) return b;
  const int rank = c[0].rank();
  const auto* const axis = c.find("axis");
  if (!axis || b.rank() == 0) return b;
  const int64_t begin = axis->i < 0 ? axis->i + rank : axis->i;
  Shape shape = b.shape();
  for (int64_t i = begin + b.rank(); i < rank; ++i) shape.push_back(1);
  return reshape(b, shape);
}

/// An axis in [0, rank).
inline int64_t axis_of(const Call& c, int64_t axis, int rank) {
  c.check(axis >= -rank && axis < (rank == 0 ? 1 : rank), "axis {} of a tensor of {} axes", axis,
          rank);
  return axis < 0 ? axis + rank : axis;
}
inline Dims axes_of(const Call& c, const std::vector<int64_t>& axes, int rank) {
  Dims positive;
  for (const int64_t axis : axes) positive.push_back(axis_of(c, axis, rank));
  return positive;
}

}  // namespace mica::onnx
