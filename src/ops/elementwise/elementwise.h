#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

namespace mica {

// Two operands broadcast as in NumPy and promote (core/dtype.h). A number takes the tensor's dtype,
// which must hold it; a floating one beside integers makes f32, an integer beside bools i64.
// Integers wrap.
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
/// True division: two integers give f32.
Tensor div(const Tensor& a, const Tensor& b);
/// floor(a / b), and what remains, with b's sign. Integers by zero raise Error: on the CPU at once,
/// on CUDA when the stream is next waited for.
Tensor floor_divide(const Tensor& a, const Tensor& b);
Tensor remainder(const Tensor& a, const Tensor& b);
Tensor pow(const Tensor& a, const Tensor& b);
/// NaN wins; the gradient of equals goes to both halves.
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& a, const Tensor& b);
/// The angle of (x, y), in (-pi, pi].
Tensor atan2(const Tensor& y, const Tensor& x);
/// a + weight * (b - a).
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);

Tensor add(const Tensor& a, Number b);
Tensor sub(const Tensor& a, Number b);
Tensor sub(Number a, const Tensor& b);
Tensor mul(const Tensor& a, Number b);
Tensor div(const Tensor& a, Number b);
Tensor div(Number a, const Tensor& b);
Tensor floor_divide(const Tensor& a, Number b);
Tensor remainder(const Tensor& a, Number b);
Tensor pow(const Tensor& a, Number b);
Tensor pow(Number a, const Tensor& b);
Tensor minimum(const Tensor& a, Number b);
Tensor maximum(const Tensor& a, Number b);
Tensor lerp(const Tensor& a, const Tensor& b, Number weight);

Tensor neg(const Tensor& x);
Tensor relu(const Tensor& x);
/// dy where y > 0, else 0; y is relu's output.
Tensor relu_grad(const Tensor& dy, const Tensor& y);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator+(const Tensor& a, Number b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, Number b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, Number b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, Number b) { return div(a, b); }
inline Tensor operator+(Number a, const Tensor& b) { return add(b, a); }
inline Tensor operator-(Number a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(Number a, const Tensor& b) { return mul(b, a); }
inline Tensor operator/(Number a, const Tensor& b) { return div(a, b); }
inline Tensor operator-(const Tensor& x) { return neg(x); }

}  // namespace mica
