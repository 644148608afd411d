#pragma once

#include "mica/core/tensor.h"
#include "mica/op/params.h"

namespace mica {

struct DimsParams {
  Dims dims;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("dims", self.dims);
  }
};

struct SliceParams {
  int64_t axis = 0;
  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("axis", self.axis);
    f("start", self.start);
    f("stop", self.stop);
    f("step", self.step);
  }
};

/// The same elements in another shape; one size may be -1. A view where strides allow it, else a
/// copy.
Tensor reshape(const Tensor& x, const Shape& shape);
/// Flattens the axes from `start` on into one.
Tensor flatten(const Tensor& x, int64_t start = 0);
/// Axis i of the result is axis axes[i] of x.
Tensor permute(const Tensor& x, const Dims& axes);
Tensor transpose(const Tensor& x, int64_t a, int64_t b);
/// Repeats sizes of 1 without copying.
Tensor expand(const Tensor& x, const Shape& shape);
/// x[start:stop:step] along an axis, with Python's negative indices; step >= 1.
Tensor slice(const Tensor& x, int64_t axis, int64_t start, int64_t stop, int64_t step = 1);

}  // namespace mica
