#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

namespace mica {

struct DropoutParams {
  double p = 0.5;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("p", self.p);
  }
};

/// Zeroes each element with probability p and scales the others by 1/(1-p). Op inputs: x and a
/// counter from rng_take; an element is kept when its uniform number is >= p. No mask is stored:
/// the gradient is the same op with the same counter. A third input, where there is one, is a
/// relu's result whose gradient follows: the op's is 0 where that is not positive.
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);

// The same for whole channels of x (N, C, …).
Tensor dropout1d(const Tensor& x, double p = 0.5, bool training = true);  // (N, C, L)
Tensor dropout2d(const Tensor& x, double p = 0.5, bool training = true);  // (N, C, H, W)
Tensor dropout3d(const Tensor& x, double p = 0.5, bool training = true);  // (N, C, D, H, W)

}  // namespace mica
