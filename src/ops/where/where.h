#pragma once

#include "mica/core/tensor.h"
#include "mica/ops/where/functors.h"

namespace mica {

/// a where the condition (bool) holds, else b; all broadcast, a and b promote.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& a, double b);
Tensor where(const Tensor& condition, double a, const Tensor& b);

/// x between two bounds (high wins if they cross); integers have whole bounds. The gradient passes
/// where low <= x <= high.
Tensor clamp(const Tensor& x, const ClampParams& params);
Tensor clamp(const Tensor& x, double low, double high);
Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high);

}  // namespace mica
