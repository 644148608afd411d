#pragma once

#include "mica/core/tensor.h"
#include "mica/op/params.h"

namespace mica {

/// Matrix product of a (…, M, K) and b (…, K, N); leading dimensions broadcast. Transposed operands
/// (permuted views) are taken as they are.
Tensor matmul(const Tensor& a, const Tensor& b);

/// x (…, in) times weight (out, in) transposed, plus bias (out) where defined.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

}  // namespace mica
