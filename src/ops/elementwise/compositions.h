#pragma once

#include "mica/core/tensor.h"

namespace mica {

// Functions of two and three operands that are made of others. Operands broadcast and promote.

/// What remains of a / b, with a's sign.
Tensor fmod(const Tensor& a, const Tensor& b);
Tensor fmod(const Tensor& a, Number b);
/// a with the sign of b, also where that is -0 or NaN; integers give f32.
Tensor copysign(const Tensor& a, const Tensor& b);
Tensor copysign(const Tensor& a, Number b);
/// sqrt(a^2 + b^2), without overflow in between.
Tensor hypot(const Tensor& a, const Tensor& b);
/// log(exp(a) + exp(b)), without overflow in between.
Tensor logaddexp(const Tensor& a, const Tensor& b);
/// a * log(b), and 0 where a is 0 and b not NaN.
Tensor xlogy(const Tensor& a, const Tensor& b);
/// x + value * a * b.
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, Number value = 1);
/// x + value * a / b.
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, Number value = 1);

}  // namespace mica
