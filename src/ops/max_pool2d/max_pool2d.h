#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"
#include "mica/ops/pool/adaptive.h"
#include "mica/ops/pool/options.h"

namespace mica {

using MaxPool2dParams = MaxPoolOptions<Size2>;

/// Parameters of the gradient: the pooling's own and the input's shape.
struct MaxPool2dGradParams {
  MaxPool2dParams pool;
  Shape shape;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    MaxPool2dParams::fields(self.pool, f);
    f("shape", self.shape);
  }
};

/// Largest value of each window of x (N, C, H, W). NaN wins. The op has a second output that the
/// gradient reads: for each result the position of the maximum (the first of equals) in its plane,
/// h * W + w, as i32.
Tensor max_pool2d(const Tensor& x, const MaxPool2dParams& params = {});
PooledWithIndices max_pool2d_with_indices(const Tensor& x, const MaxPool2dParams& params = {});

/// Sends dy (N, C, H', W') back to the positions (N, C, H', W') the maxima came from.
Tensor max_pool2d_grad(const Tensor& dy, const Tensor& positions,
                       const MaxPool2dGradParams& params);

/// Largest value of each of `output` windows that divide x (N, C, H, W) into nearly equal parts,
/// which overlap by one where they are not equal. NaN wins. The op's second output is max_pool2d's.
Tensor adaptive_max_pool2d(const Tensor& x, Size2 output);
PooledWithIndices adaptive_max_pool2d_with_indices(const Tensor& x, Size2 output);

}  // namespace mica
