#pragma once

#include "mica/core/tensor.h"

namespace mica {

// Comparisons and tests give bool. Operands broadcast and promote; a number takes the tensor's
// dtype, but integers are compared with any number exactly. NaN equals nothing.
Tensor eq(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, const Tensor& b);
Tensor eq(const Tensor& a, Number b);
Tensor ne(const Tensor& a, Number b);
Tensor lt(const Tensor& a, Number b);
Tensor le(const Tensor& a, Number b);
Tensor gt(const Tensor& a, Number b);
Tensor ge(const Tensor& a, Number b);

/// Whether complex numbers are not zero; other tensors as they are.
Tensor truth_of(const Tensor& x);
/// Whatever is not zero counts as true.
Tensor logical_and(const Tensor& a, const Tensor& b);
Tensor logical_or(const Tensor& a, const Tensor& b);
Tensor logical_xor(const Tensor& a, const Tensor& b);
Tensor logical_not(const Tensor& x);

Tensor isnan(const Tensor& x);
Tensor isinf(const Tensor& x);
Tensor isfinite(const Tensor& x);
/// Whether the sign is a minus, also that of -0 and of NaN.
Tensor signbit(const Tensor& x);

// Of integers and bool.
Tensor bitwise_and(const Tensor& a, const Tensor& b);
Tensor bitwise_or(const Tensor& a, const Tensor& b);
Tensor bitwise_xor(const Tensor& a, const Tensor& b);
Tensor bitwise_not(const Tensor& x);
/// Integers only; to the right with the sign. A shift by the whole width or more, or by a negative
/// number, leaves nothing but the sign.
Tensor left_shift(const Tensor& a, const Tensor& b);
Tensor right_shift(const Tensor& a, const Tensor& b);

}  // namespace mica
