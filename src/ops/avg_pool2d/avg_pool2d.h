#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"
#include "mica/ops/pool/adaptive.h"
#include "mica/ops/pool/options.h"

namespace mica {

using AvgPool2dParams = AvgPoolOptions<Size2>;

/// Parameters of the gradient: the pooling's own and the input's shape.
struct AvgPool2dGradParams {
  AvgPool2dParams pool;
  Shape shape;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    AvgPool2dParams::fields(self.pool, f);
    f("shape", self.shape);
  }
};

/// Mean of each window of x (N, C, H, W). What a window of ceil_mode has past the padding does not
/// count.
Tensor avg_pool2d(const Tensor& x, const AvgPool2dParams& params = {});

/// Gradient of avg_pool2d: spreads dy (N, C, H', W') over the windows.
Tensor avg_pool2d_grad(const Tensor& dy, const AvgPool2dGradParams& params);

/// Mean of each of `output` windows that divide x (N, C, H, W) into nearly equal parts, which
/// overlap by one where they are not equal.
Tensor adaptive_avg_pool2d(const Tensor& x, Size2 output);

/// Gradient of adaptive_avg_pool2d: spreads dy (N, C, H', W') over the windows.
Tensor adaptive_avg_pool2d_grad(const Tensor& dy, const AdaptivePool2dGradParams& params);

}  // namespace mica
