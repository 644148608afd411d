#pragma once

#include <concepts>
#include <utility>

#include "mica/core/tensor_index.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/elementwise/elementwise.h"

// C++'s operators on tensors and numbers beside + - * / of ops/elementwise/elementwise.h.
// Comparisons give bool, element by element; none of them can be overlooked in an `if`, since a
// tensor is no condition.
namespace mica {

namespace detail {
/// A number as the other operand of an operator, which errors name.
Tensor number(Number value, const Tensor& like, const char* op);
}  // namespace detail

inline Tensor operator%(const Tensor& a, const Tensor& b) { return remainder(a, b); }
inline Tensor operator%(const Tensor& a, Number b) { return remainder(a, b); }
inline Tensor operator%(Number a, const Tensor& b) {
  return remainder(detail::number(a, b, "remainder"), b);
}

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
inline Tensor operator&(const Tensor& a, Number b) {
  return a & detail::number(b, a, "bitwise_and");
}
inline Tensor operator|(const Tensor& a, Number b) {
  return a | detail::number(b, a, "bitwise_or");
}
inline Tensor operator^(const Tensor& a, Number b) {
  return a ^ detail::number(b, a, "bitwise_xor");
}
inline Tensor operator<<(const Tensor& a, Number b) {
  return a << detail::number(b, a, "left_shift");
}
inline Tensor operator>>(const Tensor& a, Number b) {
  return a >> detail::number(b, a, "right_shift");
}
inline Tensor operator&(Number a, const Tensor& b) {
  return detail::number(a, b, "bitwise_and") & b;
}
inline Tensor operator|(Number a, const Tensor& b) {
  return detail::number(a, b, "bitwise_or") | b;
}
inline Tensor operator^(Number a, const Tensor& b) {
  return detail::number(a, b, "bitwise_xor") ^ b;
}
inline Tensor operator<<(Number a, const Tensor& b) {
  return detail::number(a, b, "left_shift") << b;
}
inline Tensor operator>>(Number a, const Tensor& b) {
  return detail::number(a, b, "right_shift") >> b;
}

// In place: every tensor on the same memory sees it, and the dtype stays. A part that has no name
// is written back to where it points, `a[mask] += 1`.
template <class T>
concept TensorOrPart = std::derived_from<std::remove_cvref_t<T>, Tensor>;

template <TensorOrPart A, class B>
  requires requires(const Tensor& t, const B& b) { t.add_(b); }
const Tensor& operator+=(A&& a, const B& b) {
  return std::forward<A>(a).add_(b);
}
template <TensorOrPart A, class B>
  requires requires(const Tensor& t, const B& b) { t.sub_(b); }
const Tensor& operator-=(A&& a, const B& b) {
  return std::forward<A>(a).sub_(b);
}
template <TensorOrPart A, class B>
  requires requires(const Tensor& t, const B& b) { t.mul_(b); }
const Tensor& operator*=(A&& a, const B& b) {
  return std::forward<A>(a).mul_(b);
}
template <TensorOrPart A, class B>
  requires requires(const Tensor& t, const B& b) { t.div_(b); }
const Tensor& operator/=(A&& a, const B& b) {
  return std::forward<A>(a).div_(b);
}
template <TensorOrPart A, class B>
  requires requires(const Tensor& t, const B& b) { t.remainder_(b); }
const Tensor& operator%=(A&& a, const B& b) {
  return std::forward<A>(a).remainder_(b);
}
template <TensorOrPart A, class B>
  requires requires(const Tensor& t, const B& b) { t & b; }
const Tensor& operator&=(A&& a, const B& b) {
  return std::forward<A>(a).copy_(a & b);
}
template <TensorOrPart A, class B>
  requires requires(const Tensor& t, const B& b) { t | b; }
const Tensor& operator|=(A&& a, const B& b) {
  return std::forward<A>(a).copy_(a | b);
}
template <TensorOrPart A, class B>
  requires requires(const Tensor& t, const B& b) { t ^ b; }
const Tensor& operator^=(A&& a, const B& b) {
  return std::forward<A>(a).copy_(a ^ b);
}
template <TensorOrPart A, class B>
  requires requires(const Tensor& t, const B& b) { t << b; }
const Tensor& operator<<=(A&& a, const B& b) {
  return std::forward<A>(a).copy_(a << b);
}
template <TensorOrPart A, class B>
  requires requires(const Tensor& t, const B& b) { t >> b; }
const Tensor& operator>>=(A&& a, const B& b) {
  return std::forward<A>(a).copy_(a >> b);
}

}  // namespace mica
