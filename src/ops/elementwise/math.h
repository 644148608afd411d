#pragma once

// The mathematics that functors are written with, for single values on host and device. Vectors
// bring their own overloads (runtime/cpu/simd.h).
#include "mica/runtime/portable.h"

#if !defined(__CUDACC_RTC__)
#include <cmath>
#endif

namespace mica::math {

#define MICA_MATH(name, f32_name, f64_name)                          \
  MICA_PORTABLE inline float name(float x) { return ::f32_name(x); } \
  MICA_PORTABLE inline double name(double x) { return ::f64_name(x); }
#define MICA_MATH_2(name)                                                       \
  MICA_PORTABLE inline float name(float x, float y) { return ::name##f(x, y); } \
  MICA_PORTABLE inline double name(double x, double y) { return ::name(x, y); }
MICA_MATH(exp, expf, exp)
MICA_MATH(exp2, exp2f, exp2)
MICA_MATH(expm1, expm1f, expm1)
MICA_MATH(log, logf, log)
MICA_MATH(log2, log2f, log2)
MICA_MATH(log10, log10f, log10)
MICA_MATH(log1p, log1pf, log1p)
MICA_MATH(sqrt, sqrtf, sqrt)
MICA_MATH(sin, sinf, sin)
MICA_MATH(cos, cosf, cos)
MICA_MATH(tan, tanf, tan)
MICA_MATH(asin, asinf, asin)
MICA_MATH(acos, acosf, acos)
MICA_MATH(atan, atanf, atan)
MICA_MATH(sinh, sinhf, sinh)
MICA_MATH(cosh, coshf, cosh)
MICA_MATH(tanh, tanhf, tanh)
MICA_MATH(asinh, asinhf, asinh)
MICA_MATH(acosh, acoshf, acosh)
MICA_MATH(atanh, atanhf, atanh)
MICA_MATH(erf, erff, erf)
MICA_MATH(floor, floorf, floor)
MICA_MATH(ceil, ceilf, ceil)
MICA_MATH(trunc, truncf, trunc)
MICA_MATH(round_even, rintf, rint)
MICA_MATH(abs, fabsf, fabs)
MICA_MATH_2(pow)
MICA_MATH_2(atan2)
MICA_MATH_2(fmod)
#undef MICA_MATH
#undef MICA_MATH_2

template <class T>
inline constexpr bool kIsInteger = false;
template <>
inline constexpr bool kIsInteger<int> = true;
template <>
inline constexpr bool kIsInteger<long> = true;
template <>
inline constexpr bool kIsInteger<long long> = true;
template <>
inline constexpr bool kIsInteger<unsigned long> = true;
template <>
inline constexpr bool kIsInteger<unsigned long long> = true;

/// Whether x is below zero, which an unsigned integer never is.
template <class T>
MICA_PORTABLE bool is_negative(T x) {
  if constexpr (T(-1) < T(0)) return x < T(0);
  return false;
}
/// Whether a division by x may overflow.
template <class T>
MICA_PORTABLE bool is_minus_one(T x) {
  if constexpr (T(-1) < T(0)) return x == T(-1);
  return false;
}

/// Integers wrap around.
template <class T>
MICA_PORTABLE T wrapped(unsigned long long x) {
  return static_cast<T>(x);
}
MICA_PORTABLE inline int abs(int x) {
  return x < 0 ? wrapped<int>(0ULL - static_cast<unsigned long long>(x)) : x;
}
MICA_PORTABLE inline long abs(long x) {
  return x < 0 ? wrapped<long>(0ULL - static_cast<unsigned long long>(x)) : x;
}
MICA_PORTABLE inline long long abs(long long x) {
  return x < 0 ? wrapped<long long>(0ULL - static_cast<unsigned long long>(x)) : x;
}
MICA_PORTABLE inline unsigned long abs(unsigned long x) { return x; }
MICA_PORTABLE inline unsigned long long abs(unsigned long long x) { return x; }

/// a where the condition holds, else b; for vectors lane by lane.
template <class T>
MICA_PORTABLE T select(bool condition, T a, T b) {
  return condition ? a : b;
}

}  // namespace mica::math
