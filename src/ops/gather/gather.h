#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

namespace mica {

struct GatherParams {
  int64_t axis = 0;
  bool wrap = false;  ///< negative indices count from the end

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("axis", self.axis);
    f("wrap", self.wrap);
  }
};

struct ScatterParams {
  int64_t axis = 0;
  bool wrap = false;
  Shape shape = {};  ///< where the first input is left out: zeros of this shape

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("axis", self.axis);
    f("wrap", self.wrap);
    f("shape", self.shape);
  }
};

// Indices are i64, i32 or u8. One outside the axis raises IndexError before anything is written; on
// CUDA when the device is next waited for: reading a result of it does.

/// y[i, j, k] = x[i, index[i, j, k], k] for axis 1. `index` has x's rank and is at most as large
/// off the axis; y has its shape.
Tensor gather(const Tensor& x, int64_t axis, const Tensor& index);

/// x with y[i, index[i, j, k], k] = src[i, j, k] for axis 1. `index` is at most as large as src,
/// and as x off the axis. Where an element is written twice the last in row-major order stays, and
/// it alone has a gradient.
Tensor scatter(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& src);
Tensor scatter(const Tensor& x, int64_t axis, const Tensor& index, Number value);
/// The same with += for =, in row-major order.
Tensor scatter_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& src);

/// The slices of x at the positions of a 1-d index along an axis.
Tensor index_select(const Tensor& x, int64_t axis, const Tensor& index);
/// x with slice i of src added to slice index[i].
Tensor index_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& src);
/// x with slice i of src in place of slice index[i].
Tensor index_copy(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& src);

/// gather where x and index broadcast off the axis, and negative indices count from the end.
Tensor take_along_axis(const Tensor& x, const Tensor& index, int64_t axis);

}  // namespace mica
