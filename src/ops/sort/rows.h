#pragma once

#include "mica/ops/elementwise/cpu_loop.h"

namespace mica {

/// The rows of an input along an axis and where they go in a row-major output.
struct Rows {
  StridedLoop<2> rest;  ///< the other axes; operands out, in
  int64_t length = 0;
  int64_t in_step = 1;
  int64_t out_step = 1;

  Rows(const TensorSpec& in, const TensorSpec& out, int axis)
      : rest(without(in.shape, axis), {without(out.strides, axis), without(in.strides, axis)}),
        length(in.shape[axis]),
        in_step(in.strides[axis]),
        out_step(out.strides[axis]) {}

  int64_t count() const { return rest.numel; }

  struct Offsets {
    int64_t out = 0;
    int64_t in = 0;
  };
  Offsets offsets(int64_t row) const {
    Offsets at;
    for (int axis = rest.rank - 1; axis >= 0; --axis) {
      const auto a = static_cast<size_t>(axis);
      at.out += row % rest.size[a] * rest.stride[0][a];
      at.in += row % rest.size[a] * rest.stride[1][a];
      row /= rest.size[a];
    }
    return at;
  }

 private:
  static Dims without(const Dims& dims, int axis) {
    Dims rest;
    for (int i = 0; i < dims.rank(); ++i)
      if (i != axis) rest.push_back(dims[i]);
    return rest;
  }
};

}  // namespace mica
