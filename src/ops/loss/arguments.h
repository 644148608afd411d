#pragma once

#include "mica/core/check.h"
#include "mica/core/tensor.h"

namespace mica {

/// Input and target of a loss: floating, of one shape.
inline void check_alike(const char* op, const Tensor& input, const Tensor& target) {
  check<DTypeError>(is_floating(input.dtype()), "{}: expected a floating dtype, got {}", op,
                    input.dtype());
  check<ShapeError>(input.shape() == target.shape(),
                    "{}: input and target must have one shape, got {} and {}", op, input.shape(),
                    target.shape());
}

}  // namespace mica
