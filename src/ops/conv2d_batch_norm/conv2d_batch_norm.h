#pragma once

#include "mica/ops/batch_norm/batch_norm.h"
#include "mica/ops/conv2d/conv2d.h"

namespace mica {

/// A convolution and the batch norm of its result.
struct Conv2dBatchNormParams {
  Conv2dParams conv;
  BatchNormParams norm;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    Conv2dParams::fields(self.conv, f);
    BatchNormParams::fields(self.norm, f);
  }
};

/// The gradient of a convolution's input, and of the batch norm before it.
struct Conv2dBatchNormGradParams {
  Conv2dGradParams conv;
  BatchNormParams norm;
  int64_t apart = 1;  ///< pixels between those that `more` has, along both axes

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    Conv2dGradParams::fields(self.conv, f);
    BatchNormParams::fields(self.norm, f);
    f("apart", self.apart);
  }
  /// Of `more`.
  Shape more_shape() const {
    Shape s = conv.shape;
    for (int d = 2; d < s.rank(); ++d) s[d] = (s[d] + apart - 1) / apart;
    return s;
  }
};

// Two ops that exist only inside compiled functions.
//
// conv2d_batch_norm: inputs x, weight and bias of conv2d, then weight, bias, running_mean and
// running_var of batch_norm; outputs batch_norm's, and the convolution's.
//
// conv2d_dgrad_batch_norm_grad, of relu(batch_norm(x) + residual) and a convolution of that:
// inputs dy and weight of conv2d_dgrad, what else the relu's result gets as a gradient (each
// `apart`-th pixel of it, where the others get none), that result, then x, weight, mean and invstd
// of batch_norm_grad; outputs dx, dweight and dbias of batch_norm_grad, and the gradient of the
// residual.

}  // namespace mica
