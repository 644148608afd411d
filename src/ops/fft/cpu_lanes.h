#pragma once

// The discrete Fourier transform of as many lines at once as a vector has lanes. Element i of all
// lines lies at [2 i] (real parts) and [2 i + 1] (imaginary parts), a vector each, so that one
// butterfly serves all lines and nothing is shuffled. Stockham's passes, which leave the result in
// order; the backward transform is the forward one with the parts exchanged.
#include <immintrin.h>

#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "mica/core/complex.h"
#include "mica/runtime/cpu/vec.h"

namespace mica::fft {

/// exp(-2 pi i k / n), from an angle of at most an eighth of the circle: exact to the last digit.
inline Complex<double> root_of_unity(int64_t k, int64_t n) {
  k %= n;
  const int64_t eighth = 8 * k / n;
  const auto angle = [&](int64_t numerator) {  // of 8 n parts of the circle
    return 2 * std::numbers::pi * static_cast<double>(numerator) / (8 * static_cast<double>(n));
  };
  const bool odd = eighth % 2 == 1;
  const int64_t rest = 8 * k - eighth * n;
  const double a = angle(odd ? n - rest : rest);
  double c = std::cos(a);
  double s = std::sin(a);
  if (odd) std::swap(c, s);  // pi/4 - a
  switch (eighth / 2) {
    case 0:
      return {c, -s};
    case 1:
      return {-s, -c};
    case 2:
      return {-c, s};
    default:
      return {s, c};
  }
}

/// Factors that have a butterfly; empty where one of n's is larger.
inline std::vector<int64_t> small_factors(int64_t n) {
  constexpr int64_t kLargest = 13;
  std::vector<int64_t> factors;
  // Eights and fours as long as no two is left over: each pass goes through all numbers.
  for (; n % 8 == 0 && n / 8 % 4 != 2; n /= 8) factors.push_back(8);
  for (const int64_t f : {4, 2, 3, 5})
    for (; n % f == 0; n /= f) factors.push_back(f);
  for (int64_t f = 7; f <= kLargest; f += 2)
    for (; n % f == 0; n /= f) factors.push_back(f);
  if (n != 1) factors.clear();
  return factors;
}
inline bool is_smooth(int64_t n) { return n == 1 || !small_factors(n).empty(); }

template <class T>
struct LanePair {
  using Vec = simd::Vec<T>;
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
class LaneTransform {
 public:
  static constexpr int64_t kWidth = simd::Vec<T>::kWidth;
  static constexpr int64_t kStep = 2 * kWidth;  ///< values from one element to the next

  LaneTransform() = default;
  explicit LaneTransform(int64_t n) : n_(n) {
    int64_t rest = n;
    for (const int64_t radix : small_factors(n)) {
      Pass pass{radix, rest, {}, {}};
      for (int64_t p = 0; p < rest / radix; ++p)
        for (int64_t j = 1; j < radix; ++j) pass.twiddles.emplace_back(root_of_unity(p * j, rest));
      if (radix > 5 && radix != 8)
        for (int64_t k = 0; k < radix; ++k) pass.roots.emplace_back(root_of_unity(k, radix));
      passes_.push_back(std::move(pass));
      rest /= radix;
    }
  }

  int64_t size() const { return n_; }
  /// Values of a buffer.
  int64_t buffer() const { return n_ * kStep; }

  /// Transforms x with another buffer; gives the one that holds the result.
  T* run(T* x, T* other) const {
    int64_t stride = 1;
    for (const Pass& pass : passes_) {
      run(pass, stride, x, other);
      std::swap(x, other);
      stride *= pass.radix;
    }
    return x;
  }

 private:
  using Pair = LanePair<T>;
  struct Pass {
    int64_t radix;
    int64_t length;                    ///< of what is left to transform
    std::vector<Complex<T>> twiddles;  ///< radix - 1 for each place
    std::vector<Complex<T>> roots;     ///< of unity, of a radix without a butterfly of its own
  };

  static void run(const Pass& pass, int64_t stride, const T* x, T* y) {
    switch (pass.radix) {
      case 2:
        return butterflies<2>(pass, stride, x, y, butterfly_2);
      case 3:
        return butterflies<3>(pass, stride, x, y, butterfly_3);
      case 4:
        return butterflies<4>(pass, stride, x, y, butterfly_4);
      case 5:
        return butterflies<5>(pass, stride, x, y, butterfly_5);
      case 7:
        return butterflies<7>(pass, stride, x, y,
                              [&](Pair(&v)[7]) { odd_butterfly<7>(pass.roots, v); });
      case 8:
        return butterflies<8>(pass, stride, x, y, butterfly_8);
      case 11:
        return butterflies<11>(pass, stride, x, y,
                               [&](Pair(&v)[11]) { odd_butterfly<11>(pass.roots, v); });
      default:
        return butterflies<13>(pass, stride, x, y,
                               [&](Pair(&v)[13]) { odd_butterfly<13>(pass.roots, v); });
    }
  }

  /// y[q + s (r p + j)] = w(p j) * sum over k of x[q + s (p + m k)] w_r(j k).
  template <int radix, class F>
  static void butterflies(const Pass& pass, int64_t stride, const T* x, T* y, F&& butterfly) {
    const int64_t places = pass.length / radix;
    const Complex<T>* w = pass.twiddles.data();
    for (int64_t p = 0; p < places; ++p, w += radix - 1) {
      for (int64_t q = 0; q < stride; ++q) {
        Pair v[radix];
        for (int k = 0; k < radix; ++k)
          v[k] = Pair::load(x + (q + stride * (p + places * k)) * kStep);
        butterfly(v);
        T* to = y + (q + stride * radix * p) * kStep;
        v[0].store(to);
        if (p == 0) {
          for (int j = 1; j < radix; ++j) v[j].store(to + stride * j * kStep);
        } else {
          for (int j = 1; j < radix; ++j) (v[j] * w[j - 1]).store(to + stride * j * kStep);
        }
      }
    }
  }

  static void butterfly_2(Pair (&v)[2]) {
    const Pair sum = v[0] + v[1];
    v[1] = v[0] - v[1];
    v[0] = sum;
  }
  static void butterfly_3(Pair (&v)[3]) {
    constexpr T kSin = static_cast<T>(std::numbers::sqrt3 / 2);
    const Pair sum = v[1] + v[2];
    const Pair middle = v[0] - sum * T(0.5);
    const Pair side = turned((v[1] - v[2]) * kSin);
    v[0] = v[0] + sum;
    v[1] = middle + side;
    v[2] = middle - side;
  }
  static void butterfly_4(Pair (&v)[4]) {
    const Pair a = v[0] + v[2];
    const Pair b = v[0] - v[2];
    const Pair c = v[1] + v[3];
    const Pair d = turned(v[1] - v[3]);
    v[0] = a + c;
    v[1] = b + d;
    v[2] = a - c;
    v[3] = b - d;
  }
  static void butterfly_5(Pair (&v)[5]) {
    constexpr T kCos1 = static_cast<T>(0.30901699437494742410);
    constexpr T kSin1 = static_cast<T>(0.95105651629515357212);
    constexpr T kCos2 = static_cast<T>(-0.80901699437494742410);
    constexpr T kSin2 = static_cast<T>(0.58778525229247312917);
    const Pair a = v[1] + v[4];
    const Pair b = v[1] - v[4];
    const Pair c = v[2] + v[3];
    const Pair d = v[2] - v[3];
    const Pair first = v[0] + a * kCos1 + c * kCos2;
    const Pair second = v[0] + a * kCos2 + c * kCos1;
    const Pair side_1 = turned(b * kSin1 + d * kSin2);
    const Pair side_2 = turned(b * kSin2 - d * kSin1);
    v[0] = v[0] + a + c;
    v[1] = first + side_1;
    v[2] = second + side_2;
    v[3] = second - side_2;
    v[4] = first - side_1;
  }
  static void butterfly_8(Pair (&v)[8]) {
    constexpr T kRoot = static_cast<T>(std::numbers::sqrt2 / 2);
    Pair even[4] = {v[0], v[2], v[4], v[6]};
    Pair odd[4] = {v[1], v[3], v[5], v[7]};
    butterfly_4(even);
    butterfly_4(odd);
    // Times (1 - i) / sqrt(2), and its powers.
    const Pair one = (odd[1] + turned(odd[1])) * kRoot;
    const Pair three = (turned(odd[3]) - odd[3]) * kRoot;
    const Pair two = turned(odd[2]);
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
  template <int radix>
  static void odd_butterfly(const std::vector<Complex<T>>& roots, Pair (&v)[radix]) {
    constexpr int kHalf = radix / 2;
    Pair sum[kHalf];
    Pair difference[kHalf];
    for (int k = 0; k < kHalf; ++k) {
      sum[k] = v[k + 1] + v[radix - 1 - k];
      difference[k] = v[k + 1] - v[radix - 1 - k];
    }
    const Pair zero = v[0];
    for (int k = 0; k < kHalf; ++k) v[0] = v[0] + sum[k];
    for (int j = 1; j <= kHalf; ++j) {
      Pair middle = zero;
      Pair side{simd::Vec<T>(0), simd::Vec<T>(0)};
      for (int k = 1; k <= kHalf; ++k) {
        const Complex<T> w = roots[static_cast<size_t>(j * k % radix)];
        middle = middle + sum[k - 1] * w.re;
        side = side + difference[k - 1] * -w.im;
      }
      v[j] = middle + turned(side);
      v[radix - j] = middle - turned(side);
    }
  }

  int64_t n_ = 1;
  std::vector<Pass> passes_;
};

// From lines to lanes and back, by as few shuffles as there can be: lane j then holds line
// lane_of(j), an order that is its own inverse.
template <class T>
constexpr int lane_of(int64_t line) {
  constexpr int kFloats[] = {0, 1, 4, 5, 2, 3, 6, 7};
  constexpr int kDoubles[] = {0, 2, 1, 3};
  if constexpr (sizeof(T) == 4) return kFloats[line];
  return kDoubles[line];
}

inline __m256 raw_of(simd::Vec<float> x) { return x.v; }
inline __m256d raw_of(simd::Vec<double> x) { return x.v; }

inline void transpose(__m256d (&v)[4]) {
  const __m256d a = _mm256_unpacklo_pd(v[0], v[1]);
  const __m256d b = _mm256_unpackhi_pd(v[0], v[1]);
  const __m256d c = _mm256_unpacklo_pd(v[2], v[3]);
  const __m256d d = _mm256_unpackhi_pd(v[2], v[3]);
  v[0] = _mm256_permute2f128_pd(a, c, 0x20);
  v[1] = _mm256_permute2f128_pd(b, d, 0x20);
  v[2] = _mm256_permute2f128_pd(a, c, 0x31);
  v[3] = _mm256_permute2f128_pd(b, d, 0x31);
}
inline void transpose(__m256 (&v)[8]) {
  __m256 pairs[8];
  for (int i = 0; i < 8; i += 2) {
    pairs[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
    pairs[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
  }
  __m256 fours[8];
  for (int i = 0; i < 8; i += 4)
    for (int k = 0; k < 2; ++k) {
      fours[i + 2 * k] = _mm256_shuffle_ps(pairs[i + k], pairs[i + 2 + k], 0x44);
      fours[i + 2 * k + 1] = _mm256_shuffle_ps(pairs[i + k], pairs[i + 2 + k], 0xEE);
    }
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
    v[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
  }
}

/// As many complex numbers of one line as a vector has lanes, their parts apart.
inline LanePair<float> load_numbers(const float* p) {
  const __m256 a = _mm256_loadu_ps(p);
  const __m256 b = _mm256_loadu_ps(p + 8);
  return {simd::Vec<float>(_mm256_shuffle_ps(a, b, 0x88)),
          simd::Vec<float>(_mm256_shuffle_ps(a, b, 0xDD))};
}
inline LanePair<double> load_numbers(const double* p) {
  const __m256d a = _mm256_loadu_pd(p);
  const __m256d b = _mm256_loadu_pd(p + 4);
  return {simd::Vec<double>(_mm256_unpacklo_pd(a, b)), simd::Vec<double>(_mm256_unpackhi_pd(a, b))};
}
inline void store_numbers(LanePair<float> x, float* p) {
  _mm256_storeu_ps(p, _mm256_unpacklo_ps(x.re.v, x.im.v));
  _mm256_storeu_ps(p + 8, _mm256_unpackhi_ps(x.re.v, x.im.v));
}
inline void store_numbers(LanePair<double> x, double* p) {
  _mm256_storeu_pd(p, _mm256_unpacklo_pd(x.re.v, x.im.v));
  _mm256_storeu_pd(p + 4, _mm256_unpackhi_pd(x.re.v, x.im.v));
}

/// How many numbers of each line one of the following takes.
template <class T>
inline constexpr int64_t kSquare = simd::Vec<T>::kWidth / 2;

/// Complex numbers of as many lines as there are lanes, `line` values apart, to elements side by
/// side, and back. `exchanged` parts come and go in the other order.
template <bool exchanged>
void load_square(const float* from, int64_t line, float* to) {
  __m256d low[4];
  __m256d high[4];
  for (int i = 0; i < 4; ++i) {
    low[i] = _mm256_castps_pd(_mm256_loadu_ps(from + i * line));
    high[i] = _mm256_castps_pd(_mm256_loadu_ps(from + (i + 4) * line));
  }
  transpose(low);
  transpose(high);
  for (int i = 0; i < 4; ++i) {
    const __m256 a = _mm256_castpd_ps(low[i]);
    const __m256 b = _mm256_castpd_ps(high[i]);
    _mm256_storeu_ps(to + 16 * i + (exchanged ? 8 : 0), _mm256_shuffle_ps(a, b, 0x88));
    _mm256_storeu_ps(to + 16 * i + (exchanged ? 0 : 8), _mm256_shuffle_ps(a, b, 0xDD));
  }
}
template <bool exchanged>
void load_square(const double* from, int64_t line, double* to) {
  __m256d v[4];
  for (int i = 0; i < 4; ++i) v[i] = _mm256_loadu_pd(from + i * line);
  const __m256d re[2] = {_mm256_unpacklo_pd(v[0], v[2]), _mm256_unpacklo_pd(v[1], v[3])};
  const __m256d im[2] = {_mm256_unpackhi_pd(v[0], v[2]), _mm256_unpackhi_pd(v[1], v[3])};
  double* const parts[2] = {to + (exchanged ? 4 : 0), to + (exchanged ? 0 : 4)};
  _mm256_storeu_pd(parts[0], _mm256_permute2f128_pd(re[0], re[1], 0x20));
  _mm256_storeu_pd(parts[1], _mm256_permute2f128_pd(im[0], im[1], 0x20));
  _mm256_storeu_pd(parts[0] + 8, _mm256_permute2f128_pd(re[0], re[1], 0x31));
  _mm256_storeu_pd(parts[1] + 8, _mm256_permute2f128_pd(im[0], im[1], 0x31));
}
template <bool exchanged>
void store_square(const float* from, float* to, int64_t line, float scale) {
  __m256d low[4];
  __m256d high[4];
  const __m256 by = _mm256_set1_ps(scale);
  for (int i = 0; i < 4; ++i) {
    const auto x = exchanged_if<exchanged>(LanePair<float>::load(from + 16 * i));
    const __m256 re = _mm256_mul_ps(x.re.v, by);
    const __m256 im = _mm256_mul_ps(x.im.v, by);
    low[i] = _mm256_castps_pd(_mm256_unpacklo_ps(re, im));
    high[i] = _mm256_castps_pd(_mm256_unpackhi_ps(re, im));
  }
  transpose(low);
  transpose(high);
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(to + i * line, _mm256_castpd_ps(low[i]));
    _mm256_storeu_ps(to + (i + 4) * line, _mm256_castpd_ps(high[i]));
  }
}
template <bool exchanged>
void store_square(const double* from, double* to, int64_t line, double scale) {
  const __m256d by = _mm256_set1_pd(scale);
  __m256d low[2];
  __m256d high[2];
  for (int i = 0; i < 2; ++i) {
    const auto x = exchanged_if<exchanged>(LanePair<double>::load(from + 8 * i));
    const __m256d re = _mm256_mul_pd(x.re.v, by);
    const __m256d im = _mm256_mul_pd(x.im.v, by);
    low[i] = _mm256_unpacklo_pd(re, im);
    high[i] = _mm256_unpackhi_pd(re, im);
  }
  _mm256_storeu_pd(to, _mm256_permute2f128_pd(low[0], low[1], 0x20));
  _mm256_storeu_pd(to + line, _mm256_permute2f128_pd(low[0], low[1], 0x31));
  _mm256_storeu_pd(to + 2 * line, _mm256_permute2f128_pd(high[0], high[1], 0x20));
  _mm256_storeu_pd(to + 3 * line, _mm256_permute2f128_pd(high[0], high[1], 0x31));
}

/// The same of real lines, twice as many numbers of each: the even lines are real parts, the odd
/// ones imaginary parts.
template <class T>
void load_real_square(const T* from, int64_t line, T* to) {
  constexpr int kWidth = simd::Vec<T>::kWidth;
  for (int part = 0; part < 2; ++part) {
    decltype(raw_of(simd::Vec<T>())) v[kWidth];
    for (int i = 0; i < kWidth; ++i)
      v[i] = simd::Vec<T>::load(from + (2 * lane_of<T>(i) + part) * line).v;
    transpose(v);
    for (int i = 0; i < kWidth; ++i) simd::Vec<T>(v[i]).store(to + (2 * i + part) * kWidth);
  }
}
template <bool exchanged, class T>
void store_real_square(const T* from, T* to, int64_t line, T scale) {
  constexpr int kWidth = simd::Vec<T>::kWidth;
  for (int part = 0; part < 2; ++part) {
    decltype(raw_of(simd::Vec<T>())) v[kWidth];
    for (int i = 0; i < kWidth; ++i) {
      const T* x = from + (2 * i + (exchanged ? 1 - part : part)) * kWidth;
      v[i] = (simd::Vec<T>::load(x) * simd::Vec<T>(scale)).v;
    }
    transpose(v);
    for (int i = 0; i < kWidth; ++i)
      simd::Vec<T>(v[i]).store(to + (2 * lane_of<T>(i) + part) * line);
  }
}

}  // namespace mica::fft
