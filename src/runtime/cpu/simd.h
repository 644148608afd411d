#pragma once

// Vectors of 32 bytes with the mathematics of ops/elementwise/math.h, found by overload: a function
// written as a template over its value type runs on floats, doubles and these.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "mica/core/half.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace mica::simd {

template <class T>
struct Mask;

/// `width` values of float or double.
template <class T>
struct Vec {
  static constexpr int kWidth = 32 / static_cast<int>(sizeof(T));
  using Raw [[gnu::vector_size(32)]] = T;
  Raw v;

  Vec() = default;
  explicit Vec(Raw raw) : v(raw) {}
  template <class S>
    requires std::is_arithmetic_v<S>
  explicit Vec(S x) : v(static_cast<T>(x) - Raw{}) {}

  static Vec load(const T* p) {
    Vec x;
    std::memcpy(&x.v, p, sizeof x.v);
    return x;
  }
  void store(T* p) const { std::memcpy(p, &v, sizeof v); }
  T operator[](int i) const { return v[i]; }

  Vec operator-() const { return Vec(-v); }
  friend Vec operator+(Vec a, Vec b) { return Vec(a.v + b.v); }
  friend Vec operator-(Vec a, Vec b) { return Vec(a.v - b.v); }
  friend Vec operator*(Vec a, Vec b) { return Vec(a.v * b.v); }
  friend Vec operator/(Vec a, Vec b) { return Vec(a.v / b.v); }
  Vec& operator+=(Vec b) { return *this = *this + b; }
  friend Mask<T> operator<(Vec a, Vec b) { return {a.v < b.v}; }
  friend Mask<T> operator<=(Vec a, Vec b) { return {a.v <= b.v}; }
  friend Mask<T> operator>(Vec a, Vec b) { return {a.v > b.v}; }
  friend Mask<T> operator>=(Vec a, Vec b) { return {a.v >= b.v}; }
  friend Mask<T> operator==(Vec a, Vec b) { return {a.v == b.v}; }
  friend Mask<T> operator!=(Vec a, Vec b) { return {a.v != b.v}; }
};

/// What a comparison of vectors gives: all bits of a lane, or none.
template <class T>
struct Mask {
  using Lane = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  using Raw [[gnu::vector_size(32)]] = Lane;
  Raw m;

  friend Mask operator&(Mask a, Mask b) { return {a.m & b.m}; }
  friend Mask operator|(Mask a, Mask b) { return {a.m | b.m}; }
  Mask operator!() const { return {~m}; }
};

/// a where the mask is set, else b.
template <class T>
Vec<T> select(Mask<T> mask, Vec<T> a, Vec<T> b) {
  return Vec<T>(mask.m ? a.v : b.v);
}

/// A function of single values, lane by lane.
template <class T, class F>
Vec<T> each_lane(Vec<T> x, F f) {
  for (int i = 0; i < Vec<T>::kWidth; ++i) x.v[i] = f(x.v[i]);
  return x;
}

/// Largest of all lanes; NaN wins.
template <class T>
T max_lane(Vec<T> x) {
  T best = x[0];
  for (int i = 1; i < Vec<T>::kWidth; ++i)
    if (!(x[i] <= best)) best = best != best ? best : x[i];
  return best;
}
template <class T>
T sum_lanes(Vec<T> x) {
  T sum = 0;
  for (int i = 0; i < Vec<T>::kWidth; ++i) sum += x[i];
  return sum;
}

#if defined(__AVX2__) && defined(__GLIBC__)

// glibc's vector mathematics, within four units in the last place.
extern "C" {
#define MICA_VECTOR_FUNCTION(name)            \
  __m256 _ZGVdN8v_##name##f(__m256) noexcept; \
  __m256d _ZGVdN4v_##name(__m256d) noexcept;
#define MICA_VECTOR_FUNCTION_2(name)                   \
  __m256 _ZGVdN8vv_##name##f(__m256, __m256) noexcept; \
  __m256d _ZGVdN4vv_##name(__m256d, __m256d) noexcept;
#define MICA_VECTOR_FUNCTIONS(one, two)                                                           \
  one(exp) one(exp2) one(expm1) one(log) one(log2) one(log10) one(log1p) one(sin) one(cos)        \
      one(tan) one(asin) one(acos) one(atan) one(sinh) one(cosh) one(asinh) one(acosh) one(atanh) \
          one(erf) two(pow) two(atan2)
MICA_VECTOR_FUNCTIONS(MICA_VECTOR_FUNCTION, MICA_VECTOR_FUNCTION_2)
#undef MICA_VECTOR_FUNCTION
#undef MICA_VECTOR_FUNCTION_2
}
#define MICA_VECTOR_FUNCTION(name)                                                     \
  inline Vec<float> name(Vec<float> x) { return Vec<float>(_ZGVdN8v_##name##f(x.v)); } \
  inline Vec<double> name(Vec<double> x) { return Vec<double>(_ZGVdN4v_##name(x.v)); }
#define MICA_VECTOR_FUNCTION_2(name)                      \
  inline Vec<float> name(Vec<float> x, Vec<float> y) {    \
    return Vec<float>(_ZGVdN8vv_##name##f(x.v, y.v));     \
  }                                                       \
  inline Vec<double> name(Vec<double> x, Vec<double> y) { \
    return Vec<double>(_ZGVdN4vv_##name(x.v, y.v));       \
  }
MICA_VECTOR_FUNCTIONS(MICA_VECTOR_FUNCTION, MICA_VECTOR_FUNCTION_2)
#undef MICA_VECTOR_FUNCTION
#undef MICA_VECTOR_FUNCTION_2
#undef MICA_VECTOR_FUNCTIONS

extern "C" __m256d _ZGVdN4v_tanh(__m256d) noexcept;  // NOLINT(readability-identifier-naming)
inline Vec<double> tanh(Vec<double> x) { return Vec<double>(_ZGVdN4v_tanh(x.v)); }
/// An odd polynomial over an even one, within three units in the last place; past 7.9 it is 1.
inline Vec<float> tanh(Vec<float> x) {
  using F = Vec<float>;
  constexpr float kEnd = 7.90531110763549805F;
  const F inside = select(x > F(kEnd), F(kEnd), select(x < F(-kEnd), F(-kEnd), x));
  const F x2 = inside * inside;
  F p(-2.76076847742355e-16F);
  p = p * x2 + F(2.00018790482477e-13F);
  p = p * x2 + F(-8.60467152213735e-11F);
  p = p * x2 + F(5.12229709037114e-08F);
  p = p * x2 + F(1.48572235717979e-05F);
  p = p * x2 + F(6.37261928875436e-04F);
  p = p * x2 + F(4.89352455891786e-03F);
  F q(1.19825839466702e-06F);
  q = q * x2 + F(1.18534705686654e-04F);
  q = q * x2 + F(2.26843463243900e-03F);
  q = q * x2 + F(4.89352518554385e-03F);
  const F y = inside * p / q;
  return select(x * x < F(1.6e-7F), x, y);
}

inline Vec<float> sqrt(Vec<float> x) { return Vec<float>(_mm256_sqrt_ps(x.v)); }
inline Vec<double> sqrt(Vec<double> x) { return Vec<double>(_mm256_sqrt_pd(x.v)); }
template <int mode>
Vec<float> rounded(Vec<float> x) {
  return Vec<float>(_mm256_round_ps(x.v, mode | _MM_FROUND_NO_EXC));
}
template <int mode>
Vec<double> rounded(Vec<double> x) {
  return Vec<double>(_mm256_round_pd(x.v, mode | _MM_FROUND_NO_EXC));
}
template <class T>
Vec<T> floor(Vec<T> x) {
  return rounded<_MM_FROUND_TO_NEG_INF>(x);
}
template <class T>
Vec<T> ceil(Vec<T> x) {
  return rounded<_MM_FROUND_TO_POS_INF>(x);
}
template <class T>
Vec<T> trunc(Vec<T> x) {
  return rounded<_MM_FROUND_TO_ZERO>(x);
}
template <class T>
Vec<T> round_even(Vec<T> x) {
  return rounded<_MM_FROUND_TO_NEAREST_INT>(x);
}

#else

#define MICA_VECTOR_FUNCTION(name)                         \
  template <class T>                                       \
  Vec<T> name(Vec<T> x) {                                  \
    return each_lane(x, [](T v) { return std::name(v); }); \
  }
#define MICA_VECTOR_FUNCTION_2(name)                                             \
  template <class T>                                                             \
  Vec<T> name(Vec<T> x, Vec<T> y) {                                              \
    for (int i = 0; i < Vec<T>::kWidth; ++i) x.v[i] = std::name(x.v[i], y.v[i]); \
    return x;                                                                    \
  }
MICA_VECTOR_FUNCTION(exp)
MICA_VECTOR_FUNCTION(exp2)
MICA_VECTOR_FUNCTION(expm1)
MICA_VECTOR_FUNCTION(log)
MICA_VECTOR_FUNCTION(log2)
MICA_VECTOR_FUNCTION(log10)
MICA_VECTOR_FUNCTION(log1p)
MICA_VECTOR_FUNCTION(sin)
MICA_VECTOR_FUNCTION(cos)
MICA_VECTOR_FUNCTION(tan)
MICA_VECTOR_FUNCTION(asin)
MICA_VECTOR_FUNCTION(acos)
MICA_VECTOR_FUNCTION(atan)
MICA_VECTOR_FUNCTION(sinh)
MICA_VECTOR_FUNCTION(cosh)
MICA_VECTOR_FUNCTION(tanh)
MICA_VECTOR_FUNCTION(asinh)
MICA_VECTOR_FUNCTION(acosh)
MICA_VECTOR_FUNCTION(atanh)
MICA_VECTOR_FUNCTION(erf)
MICA_VECTOR_FUNCTION(sqrt)
MICA_VECTOR_FUNCTION(floor)
MICA_VECTOR_FUNCTION(ceil)
MICA_VECTOR_FUNCTION(trunc)
MICA_VECTOR_FUNCTION_2(pow)
MICA_VECTOR_FUNCTION_2(atan2)
#undef MICA_VECTOR_FUNCTION
#undef MICA_VECTOR_FUNCTION_2
template <class T>
Vec<T> round_even(Vec<T> x) {
  return each_lane(x, [](T v) { return std::nearbyint(v); });
}

#endif

template <class T>
Vec<T> abs(Vec<T> x) {
  using Raw = typename Mask<T>::Raw;
  constexpr auto kSign =
      static_cast<typename Mask<T>::Lane>(std::uint64_t{1} << (8 * sizeof(T) - 1));
  return Vec<T>(reinterpret_cast<typename Vec<T>::Raw>(reinterpret_cast<Raw>(x.v) & ~kSign));
}
template <class T>
bool any(Mask<T> mask) {
  typename Mask<T>::Lane some = 0;
  for (int i = 0; i < Vec<T>::kWidth; ++i) some |= mask.m[i];
  return some != 0;
}

/// The remainder of x / y with the sign of x, exact: while the quotient is small, the product of
/// its whole part with y is taken off in one rounding; a quotient rounded up is seen by the sign.
template <class T>
Vec<T> fmod(Vec<T> x, Vec<T> y) {
  const Vec<T> whole = trunc(x / y);
  if (any(!(abs(whole) < Vec<T>(1 << 22)))) {
    for (int i = 0; i < Vec<T>::kWidth; ++i) x.v[i] = std::fmod(x.v[i], y.v[i]);
    return x;
  }
  Vec<T> r;
  for (int i = 0; i < Vec<T>::kWidth; ++i) r.v[i] = std::fma(-whole.v[i], y.v[i], x.v[i]);
  const Vec<T> zero(0);
  const Vec<T> step = select(x < zero, -abs(y), abs(y));
  return select(((r < zero) & (x > zero)) | ((r > zero) & (x < zero)), r + step, r);
}

}  // namespace mica::simd
