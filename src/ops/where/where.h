#pragma once

#include <optional>

#include "mica/core/tensor.h"
#include "mica/ops/where/functor_params.h"

namespace mica {

/// a where the condition (bool) holds, else b; all broadcast, a and b promote.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& a, Number b);
Tensor where(const Tensor& condition, Number a, const Tensor& b);

/// x between two bounds (high wins if they cross), either of which may be left out. Integers have
/// whole bounds; a bound that is NaN makes everything NaN. The gradient passes where low <= x <=
/// high, the bounds included, as in PyTorch; its hardtanh and relu6 leave them out (`open`).
Tensor clamp(const Tensor& x, std::optional<Number> low, std::optional<Number> high);
/// The same of floats, as the op takes them.
Tensor clamp(const Tensor& x, const ClampParams& params);
Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high);

}  // namespace mica
