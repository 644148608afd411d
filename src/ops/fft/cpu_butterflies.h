#pragma once

// Transforms of a few elements, of as many lines at once as a vector has lanes.
#include <immintrin.h>

#include <numbers>
#include <vector>

#include "mica/core/complex.h"
#include "mica/runtime/cpu/vec.h"

namespace mica::fft {

/// An element of all lines, its real and its imaginary parts.
template <class T>
struct LanePair {
  using Vec = simd::Vec<T>;
  static constexpr int64_t kStep = 2 * Vec::kWidth;  ///< values of one
  Vec re, im;

  static LanePair load(const T* p) { return {Vec::load(p), Vec::load(p + Vec::kWidth)}; }
  void store(T* p) const {
    re.store(p);
    im.store(p + Vec::kWidth);
  }
  friend LanePair operator+(LanePair a, LanePair b) { return {a.re + b.re, a.im + b.im}; }
  friend LanePair operator-(LanePair a, LanePair b) { return {a.re - b.re, a.im - b.im}; }
  friend LanePair operator*(LanePair a, Complex<T> w) {
    const Vec c(w.re);
    const Vec s(w.im);
    return {a.re * c - a.im * s, a.re * s + a.im * c};
  }
  friend LanePair operator*(LanePair a, T w) { return {a.re * Vec(w), a.im * Vec(w)}; }
};
template <bool exchanged, class T>
LanePair<T> exchanged_if(LanePair<T> x) {
  return exchanged ? LanePair<T>{x.im, x.re} : x;
}
/// -i x.
template <class T>
LanePair<T> turned(LanePair<T> x) {
  return {x.im, -x.re};
}

template <class T>
[[gnu::always_inline]] inline void butterfly_2(LanePair<T> (&v)[2]) {
  const LanePair<T> sum = v[0] + v[1];
  v[1] = v[0] - v[1];
  v[0] = sum;
}
template <class T>
[[gnu::always_inline]] inline void butterfly_3(LanePair<T> (&v)[3]) {
  constexpr T kSin = static_cast<T>(std::numbers::sqrt3 / 2);
  const LanePair<T> sum = v[1] + v[2];
  const LanePair<T> middle = v[0] - sum * T(0.5);
  const LanePair<T> side = turned((v[1] - v[2]) * kSin);
  v[0] = v[0] + sum;
  v[1] = middle + side;
  v[2] = middle - side;
}
template <class T>
[[gnu::always_inline]] inline void butterfly_4(LanePair<T> (&v)[4]) {
  const LanePair<T> a = v[0] + v[2];
  const LanePair<T> b = v[0] - v[2];
  const LanePair<T> c = v[1] + v[3];
  const LanePair<T> d = turned(v[1] - v[3]);
  v[0] = a + c;
  v[1] = b + d;
  v[2] = a - c;
  v[3] = b - d;
}
template <class T>
[[gnu::always_inline]] inline void butterfly_5(LanePair<T> (&v)[5]) {
  constexpr T kCos1 = static_cast<T>(0.30901699437494742410);
  constexpr T kSin1 = static_cast<T>(0.95105651629515357212);
  constexpr T kCos2 = static_cast<T>(-0.80901699437494742410);
  constexpr T kSin2 = static_cast<T>(0.58778525229247312917);
  const LanePair<T> a = v[1] + v[4];
  const LanePair<T> b = v[1] - v[4];
  const LanePair<T> c = v[2] + v[3];
  const LanePair<T> d = v[2] - v[3];
  const LanePair<T> first = v[0] + a * kCos1 + c * kCos2;
  const LanePair<T> second = v[0] + a * kCos2 + c * kCos1;
  const LanePair<T> side_1 = turned(b * kSin1 + d * kSin2);
  const LanePair<T> side_2 = turned(b * kSin2 - d * kSin1);
  v[0] = v[0] + a + c;
  v[1] = first + side_1;
  v[2] = second + side_2;
  v[3] = second - side_2;
  v[4] = first - side_1;
}
template <class T>
[[gnu::always_inline]] inline void butterfly_8(LanePair<T> (&v)[8]) {
  constexpr T kRoot = static_cast<T>(std::numbers::sqrt2 / 2);
  LanePair<T> even[4] = {v[0], v[2], v[4], v[6]};
  LanePair<T> odd[4] = {v[1], v[3], v[5], v[7]};
  butterfly_4(even);
  butterfly_4(odd);
  // Times (1 - i) / sqrt(2), and its powers.
  const LanePair<T> one = (odd[1] + turned(odd[1])) * kRoot;
  const LanePair<T> three = (turned(odd[3]) - odd[3]) * kRoot;
  const LanePair<T> two = turned(odd[2]);
  v[0] = even[0] + odd[0];
  v[4] = even[0] - odd[0];
  v[1] = even[1] + one;
  v[5] = even[1] - one;
  v[2] = even[2] + two;
  v[6] = even[2] - two;
  v[3] = even[3] + three;
  v[7] = even[3] - three;
}
/// From sums and differences of opposite places, as above.
template <int radix, class T>
[[gnu::always_inline]] inline void odd_butterfly(const std::vector<Complex<T>>& roots,
                                                 LanePair<T> (&v)[radix]) {
  constexpr int kHalf = radix / 2;
  LanePair<T> sum[kHalf];
  LanePair<T> difference[kHalf];
#pragma GCC unroll 16
  for (int k = 0; k < kHalf; ++k) {
    sum[k] = v[k + 1] + v[radix - 1 - k];
    difference[k] = v[k + 1] - v[radix - 1 - k];
  }
  const LanePair<T> zero = v[0];
#pragma GCC unroll 16
  for (int k = 0; k < kHalf; ++k) v[0] = v[0] + sum[k];
#pragma GCC unroll 16
  for (int j = 1; j <= kHalf; ++j) {
    LanePair<T> middle = zero;
    LanePair<T> side{simd::Vec<T>(0), simd::Vec<T>(0)};
#pragma GCC unroll 16
    for (int k = 1; k <= kHalf; ++k) {
      const Complex<T> w = roots[static_cast<size_t>(j * k % radix)];
      middle = middle + sum[k - 1] * w.re;
      side = side + difference[k - 1] * -w.im;
    }
    v[j] = middle + turned(side);
    v[radix - j] = middle - turned(side);
  }
}

/// The transform of `radix` elements; roots of unity are given where none are known here.
template <int radix, class T>
[[gnu::always_inline]] inline void butterfly(const std::vector<Complex<T>>& roots,
                                             LanePair<T> (&v)[radix]) {
  if constexpr (radix == 2)
    butterfly_2(v);
  else if constexpr (radix == 3)
    butterfly_3(v);
  else if constexpr (radix == 4)
    butterfly_4(v);
  else if constexpr (radix == 5)
    butterfly_5(v);
  else if constexpr (radix == 8)
    butterfly_8(v);
  else
    odd_butterfly<radix>(roots, v);
}

}  // namespace mica::fft
