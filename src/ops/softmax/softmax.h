#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

namespace mica {

struct SoftmaxParams {
  int64_t axis = -1;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("axis", self.axis);
  }
};

/// exp(x) / sum of exp(x) along an axis; a line of nothing but -infinity gives NaN.
Tensor softmax(const Tensor& x, int64_t axis);
/// x - log of the sum of exp(x) along an axis.
Tensor log_softmax(const Tensor& x, int64_t axis);

/// From the output y: y * (dy - sum of dy * y).
Tensor softmax_grad(const Tensor& dy, const Tensor& y, int64_t axis);
/// From the output y: dy - exp(y) * sum of dy.
Tensor log_softmax_grad(const Tensor& dy, const Tensor& y, int64_t axis);

}  // namespace mica
