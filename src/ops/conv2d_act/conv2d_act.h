#pragma once

#include "mica/ops/conv2d/conv2d.h"
#include "mica/ops/matmul/matmul.h"

namespace mica {

/// A convolution and what a layer applies to its result.
struct Conv2dActParams {
  Conv2dParams conv;
  Activation activation = Activation::none;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    Conv2dParams::fields(self.conv, f);
    f("activation", self.activation);
  }
};

/// conv2d, plus `residual` of the result's shape where defined, and an activation, in one pass.
Tensor conv2d_act(const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& residual,
                  const Conv2dActParams& params);

}  // namespace mica
