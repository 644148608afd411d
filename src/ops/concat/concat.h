#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

namespace mica {

struct ConcatParams {
  int64_t axis = 0;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("axis", self.axis);
  }
};

/// The tensors one after the other along an axis they have; the other sizes must agree. Dtypes
/// promote.
Tensor concat(const Tensors& tensors, int64_t axis = 0);
/// Tensors of one shape, along a new axis.
Tensor stack(const Tensors& tensors, int64_t axis = 0);

// Parts of x, as views.

/// Parts of `size` along an axis; the last may be smaller.
Tensors split(const Tensor& x, int64_t size, int64_t axis = 0);
/// Parts of these sizes, which must add up to the axis's.
Tensors split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t axis = 0);
/// At most `chunks` parts, all of one size but for the last.
Tensors chunk(const Tensor& x, int64_t chunks, int64_t axis = 0);

}  // namespace mica
