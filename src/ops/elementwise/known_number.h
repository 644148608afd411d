#pragma once

#include <optional>

#include "mica/core/tensor.h"

namespace mica::elementwise {

/// The value of a tensor that `number` (calls.h) made, or of a view of one: nobody writes to those.
std::optional<Number> known_number(const Tensor& x);

/// A 0-d tensor of floats as such a one, others as they are.
Tensor with_known_number(const Tensor& x);

}  // namespace mica::elementwise
