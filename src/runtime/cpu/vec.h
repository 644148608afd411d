#pragma once

// Vectors of floats and doubles, as wide as the file that includes this is compiled for: 64 bytes
// with AVX-512, else 32. Each width has a namespace of its own, so that files of both widths link
// into one library and none runs the other's code.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace mica::simd {
#if defined(__AVX512F__)
inline namespace avx512 {
inline constexpr int kBytes = 64;
#else
inline namespace avx2 {
inline constexpr int kBytes = 32;
#endif

template <class T>
struct Mask;

/// `kWidth` values of float or double.
template <class T>
struct Vec {
  static constexpr int kWidth = kBytes / static_cast<int>(sizeof(T));
  using Raw [[gnu::vector_size(kBytes)]] = T;
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
  using Raw [[gnu::vector_size(kBytes)]] = Lane;
  Raw m;

  friend Mask operator&(Mask a, Mask b) { return {a.m & b.m}; }
  friend Mask operator|(Mask a, Mask b) { return {a.m | b.m}; }
  Mask operator!() const { return {~m}; }
};

/// The bits of the lanes as integers of their size, and back.
template <class T>
using Bits = typename Mask<T>::Raw;
template <class T>
Bits<T> bits_of(Vec<T> x) {
  return reinterpret_cast<Bits<T>>(x.v);
}
template <class T>
Vec<T> from_bits(Bits<T> bits) {
  return Vec<T>(reinterpret_cast<typename Vec<T>::Raw>(bits));
}

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

template <class T>
Vec<T> abs(Vec<T> x) {
  constexpr auto kSign =
      static_cast<typename Mask<T>::Lane>(std::uint64_t{1} << (8 * sizeof(T) - 1));
  return from_bits<T>(bits_of(x) & ~kSign);
}

#if defined(__AVX512F__)
#define MICA_MM(name) _mm512_##name
#define MICA_MM_ROUND(type) _mm512_roundscale_##type
#elif defined(__AVX2__)
#define MICA_MM(name) _mm256_##name
#define MICA_MM_ROUND(type) _mm256_round_##type
#endif

#if defined(__AVX2__)

template <class T>
bool any(Mask<T> mask) {
#if defined(__AVX512F__)
  const auto m = reinterpret_cast<__m512i>(mask.m);
  return _mm512_test_epi32_mask(m, m) != 0;
#else
  const auto m = reinterpret_cast<__m256i>(mask.m);
  return _mm256_testz_si256(m, m) == 0;
#endif
}

/// Stores past the caches, to an address that is a multiple of kBytes; `stream_fence`
/// (runtime/cpu/stream.h) must follow.
inline void stream(Vec<float> x, float* to) { MICA_MM(stream_ps)(to, x.v); }
inline void stream(Vec<double> x, double* to) { MICA_MM(stream_pd)(to, x.v); }

/// a * b + c, rounded once.
inline Vec<float> fma(Vec<float> a, Vec<float> b, Vec<float> c) {
  return Vec<float>(MICA_MM(fmadd_ps)(a.v, b.v, c.v));
}
inline Vec<double> fma(Vec<double> a, Vec<double> b, Vec<double> c) {
  return Vec<double>(MICA_MM(fmadd_pd)(a.v, b.v, c.v));
}
// The lesser and the greater of two; b where one is NaN.
inline Vec<float> lesser(Vec<float> a, Vec<float> b) {
  return Vec<float>(MICA_MM(min_ps)(a.v, b.v));
}
inline Vec<float> greater(Vec<float> a, Vec<float> b) {
  return Vec<float>(MICA_MM(max_ps)(a.v, b.v));
}

inline Vec<float> sqrt(Vec<float> x) { return Vec<float>(MICA_MM(sqrt_ps)(x.v)); }
inline Vec<double> sqrt(Vec<double> x) { return Vec<double>(MICA_MM(sqrt_pd)(x.v)); }
template <int mode>
Vec<float> rounded(Vec<float> x) {
  return Vec<float>(MICA_MM_ROUND(ps)(x.v, mode | _MM_FROUND_NO_EXC));
}
template <int mode>
Vec<double> rounded(Vec<double> x) {
  return Vec<double>(MICA_MM_ROUND(pd)(x.v, mode | _MM_FROUND_NO_EXC));
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

#undef MICA_MM
#undef MICA_MM_ROUND

#else

template <class T>
bool any(Mask<T> mask) {
  typename Mask<T>::Lane some = 0;
  for (int i = 0; i < Vec<T>::kWidth; ++i) some |= mask.m[i];
  return some != 0;
}
template <class T>
void stream(Vec<T> x, T* to) {
  x.store(to);
}
template <class T>
Vec<T> fma(Vec<T> a, Vec<T> b, Vec<T> c) {
  for (int i = 0; i < Vec<T>::kWidth; ++i) a.v[i] = std::fma(a.v[i], b.v[i], c.v[i]);
  return a;
}
inline Vec<float> lesser(Vec<float> a, Vec<float> b) { return select(a < b, a, b); }
inline Vec<float> greater(Vec<float> a, Vec<float> b) { return select(a > b, a, b); }
template <class T>
Vec<T> sqrt(Vec<T> x) {
  return each_lane(x, [](T v) { return std::sqrt(v); });
}
template <class T>
Vec<T> floor(Vec<T> x) {
  return each_lane(x, [](T v) { return std::floor(v); });
}
template <class T>
Vec<T> ceil(Vec<T> x) {
  return each_lane(x, [](T v) { return std::ceil(v); });
}
template <class T>
Vec<T> trunc(Vec<T> x) {
  return each_lane(x, [](T v) { return std::trunc(v); });
}
template <class T>
Vec<T> round_even(Vec<T> x) {
  return each_lane(x, [](T v) { return std::nearbyint(v); });
}

#endif

}  // inline namespace
}  // namespace mica::simd
