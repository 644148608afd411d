#pragma once

// Vectors (runtime/cpu/vec.h) with the mathematics of ops/elementwise/math.h, found by overload: a
// function written as a template over its value type runs on floats, doubles and these.
#include <cmath>

#include "mica/runtime/cpu/simd_float.h"

namespace mica::simd {
#if defined(__AVX512F__)
inline namespace avx512 {
#else
inline namespace avx2 {
#endif

#define MICA_VECTOR_FUNCTIONS(one, two)                                                       \
  one(exp2) one(expm1) one(log2) one(log10) one(log1p) one(tan) one(asin) one(acos) one(atan) \
      one(sinh) one(cosh) one(asinh) one(acosh) one(atanh) two(pow) two(atan2)
// Of floats they are written out in simd_float.h.
#define MICA_VECTOR_FUNCTIONS_F64(one) one(exp) one(log) one(sin) one(cos) one(tanh) one(erf)

#if defined(__AVX2__) && defined(__GLIBC__)

// glibc's vector mathematics, within four units in the last place.
#if defined(__AVX512F__)
#define MICA_F32_NAME(kind, name) _ZGVeN16##kind##_##name##f
#define MICA_F64_NAME(kind, name) _ZGVeN8##kind##_##name
using RawFloats = __m512;
using RawDoubles = __m512d;
#else
#define MICA_F32_NAME(kind, name) _ZGVdN8##kind##_##name##f
#define MICA_F64_NAME(kind, name) _ZGVdN4##kind##_##name
using RawFloats = __m256;
using RawDoubles = __m256d;
#endif
#define MICA_F64_FUNCTION(name)                                      \
  extern "C" RawDoubles MICA_F64_NAME(v, name)(RawDoubles) noexcept; \
  inline Vec<double> name(Vec<double> x) { return Vec<double>(MICA_F64_NAME(v, name)(x.v)); }
#define MICA_FUNCTION(name)                                        \
  MICA_F64_FUNCTION(name)                                          \
  extern "C" RawFloats MICA_F32_NAME(v, name)(RawFloats) noexcept; \
  inline Vec<float> name(Vec<float> x) { return Vec<float>(MICA_F32_NAME(v, name)(x.v)); }
#define MICA_FUNCTION_2(name)                                                     \
  extern "C" RawFloats MICA_F32_NAME(vv, name)(RawFloats, RawFloats) noexcept;    \
  extern "C" RawDoubles MICA_F64_NAME(vv, name)(RawDoubles, RawDoubles) noexcept; \
  inline Vec<float> name(Vec<float> x, Vec<float> y) {                            \
    return Vec<float>(MICA_F32_NAME(vv, name)(x.v, y.v));                         \
  }                                                                               \
  inline Vec<double> name(Vec<double> x, Vec<double> y) {                         \
    return Vec<double>(MICA_F64_NAME(vv, name)(x.v, y.v));                        \
  }
MICA_VECTOR_FUNCTIONS(MICA_FUNCTION, MICA_FUNCTION_2)
MICA_VECTOR_FUNCTIONS_F64(MICA_F64_FUNCTION)
#undef MICA_F32_NAME
#undef MICA_F64_NAME

#else

#define MICA_FUNCTION(name)                                \
  template <class T>                                       \
  Vec<T> name(Vec<T> x) {                                  \
    return each_lane(x, [](T v) { return std::name(v); }); \
  }
#define MICA_F64_FUNCTION(name)                                 \
  inline Vec<double> name(Vec<double> x) {                      \
    return each_lane(x, [](double v) { return std::name(v); }); \
  }
#define MICA_FUNCTION_2(name)                                                    \
  template <class T>                                                             \
  Vec<T> name(Vec<T> x, Vec<T> y) {                                              \
    for (int i = 0; i < Vec<T>::kWidth; ++i) x.v[i] = std::name(x.v[i], y.v[i]); \
    return x;                                                                    \
  }
MICA_VECTOR_FUNCTIONS(MICA_FUNCTION, MICA_FUNCTION_2)
MICA_VECTOR_FUNCTIONS_F64(MICA_F64_FUNCTION)

#endif
#undef MICA_FUNCTION
#undef MICA_FUNCTION_2
#undef MICA_F64_FUNCTION
#undef MICA_VECTOR_FUNCTIONS
#undef MICA_VECTOR_FUNCTIONS_F64

/// The remainder of x / y with the sign of x, exact: while the quotient is small, the product of
/// its whole part with y is taken off in one rounding; a quotient rounded up is seen by the sign.
/// Where the whole part is 0, y may be infinite, and nothing is taken off.
template <class T>
Vec<T> fmod(Vec<T> x, Vec<T> y) {
  const Vec<T> whole = trunc(x / y);
  if (any(!(abs(whole) < Vec<T>(1 << 22)))) {
    for (int i = 0; i < Vec<T>::kWidth; ++i) x.v[i] = std::fmod(x.v[i], y.v[i]);
    return x;
  }
  const Vec<T> zero(0);
  const Vec<T> r = select(whole == zero, x, fma(-whole, y, x));
  const Vec<T> step = select(x < zero, -abs(y), abs(y));
  return select(((r < zero) & (x > zero)) | ((r > zero) & (x < zero)), r + step, r);
}

}  // inline namespace
}  // namespace mica::simd
