#pragma once

#include "mica/ops/batch_norm/batch_norm.h"

namespace mica {

/// relu(batch_norm(x, …)) in training as one call of each direction, for eager execution: the last
/// pass of the norm makes the result, and the gradient computes again where relu let it pass, so
/// that nothing between the two is kept. weight and bias must be there. Compiled functions find
/// this themselves.
Tensor batch_norm_relu(const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& running_mean, const Tensor& running_var,
                       const BatchNormParams& params);

}  // namespace mica
