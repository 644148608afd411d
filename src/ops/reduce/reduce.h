#pragma once

#include "mica/core/tensor.h"
#include "mica/op/params.h"

namespace mica {

struct ReduceParams {
  Dims axes;  ///< sorted, in [0, rank)
  bool keepdim = false;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("axes", self.axes);
    f("keepdim", self.keepdim);
  }
};

/// Sum over `axes` (all of them when empty). Sums of bool, u8 and i32 are i64.
Tensor sum(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
Tensor mean(const Tensor& x, const Dims& axes = {}, bool keepdim = false);

/// Sums x down to `shape`, from which it was broadcast.
Tensor sum_to(const Tensor& x, const Shape& shape);

struct ArgmaxParams {
  int64_t axis = -1;
  bool keepdim = false;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("axis", self.axis);
    f("keepdim", self.keepdim);
  }
};

/// Index (i64) of the largest value along an axis; the first of equals, and NaN counts as largest.
Tensor argmax(const Tensor& x, int64_t axis = -1, bool keepdim = false);

}  // namespace mica
