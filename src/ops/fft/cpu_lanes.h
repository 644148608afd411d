#pragma once

// The discrete Fourier transform of as many lines at once as a vector has lanes. Element i of all
// lines lies at [2 i] (real parts) and [2 i + 1] (imaginary parts), a vector each, so that one
// butterfly serves all lines and nothing is shuffled. Stockham's passes, which leave the result in
// order; the backward transform is the forward one with the parts exchanged.
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
      if (radix > 5)
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

namespace detail {

template <int first, int step, class Raw, int... i>
Raw take(Raw a, Raw b, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b, (first + step * i)...);
}
template <int first, int half, class Raw, int... i>
Raw by_turns(Raw a, Raw b, std::integer_sequence<int, i...>) {
  return __builtin_shufflevector(a, b, (first + i / 2 + i % 2 * half)...);
}

}  // namespace detail

/// As many complex numbers of one line as a vector has lanes, their parts apart.
template <class T>
LanePair<T> load_numbers(const T* p) {
  using Vec = simd::Vec<T>;
  constexpr auto kAll = std::make_integer_sequence<int, Vec::kWidth>();
  const auto a = Vec::load(p).v;
  const auto b = Vec::load(p + Vec::kWidth).v;
  return {Vec(detail::take<0, 2>(a, b, kAll)), Vec(detail::take<1, 2>(a, b, kAll))};
}
template <class T>
void store_numbers(LanePair<T> x, T* p) {
  using Vec = simd::Vec<T>;
  constexpr auto kAll = std::make_integer_sequence<int, Vec::kWidth>();
  Vec(detail::by_turns<0, Vec::kWidth>(x.re.v, x.im.v, kAll)).store(p);
  Vec(detail::by_turns<Vec::kWidth / 2, Vec::kWidth>(x.re.v, x.im.v, kAll)).store(p + Vec::kWidth);
}

/// A square of vectors, transposed: each pass rotates the bits of an element's place by one.
template <class T>
void transpose(simd::Vec<T> (&v)[simd::Vec<T>::kWidth]) {
  using Vec = simd::Vec<T>;
  constexpr int kSide = Vec::kWidth;
  constexpr auto kAll = std::make_integer_sequence<int, kSide>();
  for (int pass = 1; pass < kSide; pass *= 2) {
    Vec t[kSide];
    for (int i = 0; i < kSide / 2; ++i) {
      t[2 * i] = Vec(detail::by_turns<0, kSide>(v[i].v, v[i + kSide / 2].v, kAll));
      t[2 * i + 1] = Vec(detail::by_turns<kSide / 2, kSide>(v[i].v, v[i + kSide / 2].v, kAll));
    }
    for (int i = 0; i < kSide; ++i) v[i] = t[i];
  }
}

}  // namespace mica::fft
