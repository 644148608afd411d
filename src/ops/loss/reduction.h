#pragma once

#include "mica/core/tensor.h"

namespace mica {

/// What becomes of the losses of single elements.
enum class Reduction : uint8_t { mean, sum, none };

Tensor reduce_loss(const Tensor& losses, Reduction reduction);

}  // namespace mica
