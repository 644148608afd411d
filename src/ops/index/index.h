#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

namespace mica {

/// Inputs of the op: x, then one index for each axis.
struct IndexParams {
  Dims axes;  ///< rising

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("axes", self.axes);
  }
};

/// Inputs of the op: x or nothing, values, then one index for each axis.
struct IndexPutParams {
  Dims axes;  ///< rising
  bool accumulate = false;
  Shape shape = {};  ///< where x is left out: zeros of this shape

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("axes", self.axes);
    f("accumulate", self.accumulate);
    f("shape", self.shape);
  }
};

/// x[indices] as in NumPy: one index for each leading axis, undefined for all of an axis. Integers
/// (i64, i32, u8) broadcast together and may be negative; a bool mask stands for the positions
/// where it holds and covers as many axes as it has. The indexed axes give way to the shape of the
/// indices, where the first of them was, or in front if they are not neighbours.
Tensor index(const Tensor& x, const Tensors& indices);

/// x with `values`, broadcast, at x[indices], or added there. Where an element is written twice the
/// last in row-major order stays, and it alone has a gradient.
Tensor index_put(const Tensor& x, const Tensors& indices, const Tensor& values,
                 bool accumulate = false);

/// Positions (n, rank) of the elements that are not zero, i64, in row-major order. NaN is not zero.
Tensor nonzero(const Tensor& x);
/// Inputs of the op: x, and the number of positions up to the end of each block of x, which the op
/// `nonzero_ends` counts.
struct NonzeroParams {
  int64_t count = 0;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("count", self.count);
  }
};

// A mask is bool; it and x broadcast.

/// x with `value` where the mask holds.
Tensor masked_fill(const Tensor& x, const Tensor& mask, Number value);
/// The same with a 0-d tensor.
Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value);
/// The elements of x where the mask holds, (n), in row-major order.
Tensor masked_select(const Tensor& x, const Tensor& mask);

}  // namespace mica
