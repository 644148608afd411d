#pragma once

#include "mica/core/tensor.h"

namespace mica {

/// x * clamp(x + 3, 0, 6) / 6.
Tensor hardswish(const Tensor& x);

}  // namespace mica
