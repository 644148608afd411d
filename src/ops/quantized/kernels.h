#pragma once

#include <cmath>

#include "mica/op/kernel.h"
#include "mica/ops/quantized/quantized.h"

namespace mica {

/// The integer that stands for a number. NaN is 0.
inline int32_t quantized(const Quantization& q, float x) {
  const double scaled = std::nearbyint(x * static_cast<float>(1 / q.scale));
  return scaled >= q.lowest() ? static_cast<int32_t>(std::fmin(scaled, q.highest()))
         : scaled < 0         ? static_cast<int32_t>(q.lowest())
                              : 0;
}

Kernel quantized_conv2d_composed_kernel();
Kernel quantized_linear_composed_kernel();
Kernel quantized_conv2d_reference_kernel();
Kernel quantized_linear_reference_kernel();

}  // namespace mica
