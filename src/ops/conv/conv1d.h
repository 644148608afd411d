#pragma once

#include "mica/core/tensor.h"
#include "mica/ops/conv/options.h"

namespace mica {

/// Cross-correlation of x (N, C_in, L) with weight (C_out, C_in/groups, k), plus bias (C_out) where
/// defined. The result is (N, C_out, L').
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const ConvOptions<int64_t>& options = {});

}  // namespace mica
