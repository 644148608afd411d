#pragma once

#include "mica/ops/compare/compare.h"
#include "mica/ops/elementwise/elementwise.h"

// C++'s operators on tensors and numbers beside + - * / of ops/elementwise/elementwise.h.
// Comparisons give bool, element by element; none of them can be overlooked in an `if`, since a
// tensor is no condition.
namespace mica {

inline Tensor operator%(const Tensor& a, const Tensor& b) { return remainder(a, b); }
inline Tensor operator%(const Tensor& a, Number b) { return remainder(a, b); }

inline Tensor operator==(const Tensor& a, const Tensor& b) { return eq(a, b); }
inline Tensor operator!=(const Tensor& a, const Tensor& b) { return ne(a, b); }
inline Tensor operator<(const Tensor& a, const Tensor& b) { return lt(a, b); }
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return le(a, b); }
inline Tensor operator>(const Tensor& a, const Tensor& b) { return gt(a, b); }
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return ge(a, b); }
inline Tensor operator==(const Tensor& a, Number b) { return eq(a, b); }
inline Tensor operator!=(const Tensor& a, Number b) { return ne(a, b); }
inline Tensor operator<(const Tensor& a, Number b) { return lt(a, b); }
inline Tensor operator<=(const Tensor& a, Number b) { return le(a, b); }
inline Tensor operator>(const Tensor& a, Number b) { return gt(a, b); }
inline Tensor operator>=(const Tensor& a, Number b) { return ge(a, b); }
inline Tensor operator==(Number a, const Tensor& b) { return eq(b, a); }
inline Tensor operator!=(Number a, const Tensor& b) { return ne(b, a); }
inline Tensor operator<(Number a, const Tensor& b) { return gt(b, a); }
inline Tensor operator<=(Number a, const Tensor& b) { return ge(b, a); }
inline Tensor operator>(Number a, const Tensor& b) { return lt(b, a); }
inline Tensor operator>=(Number a, const Tensor& b) { return le(b, a); }

/// Whatever is not zero counts as true.
inline Tensor operator!(const Tensor& x) { return logical_not(x); }

// Of integers and bool.
inline Tensor operator&(const Tensor& a, const Tensor& b) { return bitwise_and(a, b); }
inline Tensor operator|(const Tensor& a, const Tensor& b) { return bitwise_or(a, b); }
inline Tensor operator^(const Tensor& a, const Tensor& b) { return bitwise_xor(a, b); }
inline Tensor operator~(const Tensor& x) { return bitwise_not(x); }
inline Tensor operator<<(const Tensor& a, const Tensor& b) { return left_shift(a, b); }
inline Tensor operator>>(const Tensor& a, const Tensor& b) { return right_shift(a, b); }

// In place: every tensor on the same memory sees it, and the dtype stays.
inline const Tensor& operator+=(const Tensor& a, const Tensor& b) { return a.add_(b); }
inline const Tensor& operator-=(const Tensor& a, const Tensor& b) { return a.sub_(b); }
inline const Tensor& operator*=(const Tensor& a, const Tensor& b) { return a.mul_(b); }
inline const Tensor& operator/=(const Tensor& a, const Tensor& b) { return a.div_(b); }
inline const Tensor& operator%=(const Tensor& a, const Tensor& b) { return a.remainder_(b); }
inline const Tensor& operator+=(const Tensor& a, Number b) { return a.add_(b); }
inline const Tensor& operator-=(const Tensor& a, Number b) { return a.sub_(b); }
inline const Tensor& operator*=(const Tensor& a, Number b) { return a.mul_(b); }
inline const Tensor& operator/=(const Tensor& a, Number b) { return a.div_(b); }
inline const Tensor& operator%=(const Tensor& a, Number b) { return a.remainder_(b); }

}  // namespace mica
