#pragma once

#include "mica/core/tensor.h"

namespace mica {

/// x with the elements of source, in row-major order, where the mask (bool) holds; the mask expands
/// to x's shape. Source has x's dtype and at least as many elements as the mask holds.
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source);

}  // namespace mica
