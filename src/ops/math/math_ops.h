#pragma once

#include "mica/core/tensor.h"

namespace mica {

// Functions of one number, element by element. Integers count as f32.
Tensor exp(const Tensor& x);
Tensor exp2(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log2(const Tensor& x);
Tensor log10(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tan(const Tensor& x);
Tensor asin(const Tensor& x);
Tensor acos(const Tensor& x);
Tensor atan(const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor asinh(const Tensor& x);
Tensor acosh(const Tensor& x);
Tensor atanh(const Tensor& x);
Tensor erf(const Tensor& x);
/// 1 - erf(x), with all its digits where that is small.
Tensor erfc(const Tensor& x);
Tensor tanh(const Tensor& x);
/// 1 / (1 + exp(-x)).
Tensor sigmoid(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor reciprocal(const Tensor& x);

/// dy * (1 - y^2) and dy * y * (1 - y), from the functions' results y.
Tensor tanh_grad(const Tensor& dy, const Tensor& y);
Tensor sigmoid_grad(const Tensor& dy, const Tensor& y);

// These keep integers.
Tensor square(const Tensor& x);
Tensor abs(const Tensor& x);
/// -1, 0 or 1; NaN stays.
Tensor sign(const Tensor& x);
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor trunc(const Tensor& x);
/// To the nearest whole number, halves to the even one.
Tensor round(const Tensor& x);

}  // namespace mica
