#pragma once

#include "mica/core/tensor.h"

namespace mica {

/// x with `value` in the slices at the positions of a 1-d index along an axis.
Tensor index_fill(const Tensor& x, int64_t axis, const Tensor& index, Number value);

}  // namespace mica
