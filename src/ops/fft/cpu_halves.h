#pragma once

// Transforms of real lines, of which half is kept, from and to those of complex lines.
#include "mica/ops/fft/cpu_squares.h"

namespace mica::fft {

/// Of one real line as n / 2 complex numbers z: X(i) = (z(i) + z̄(j)) / 2 - i w(i) (z(i) - z̄(j)) / 2
/// with j = n / 2 - i. The other way z(i) = X(i) + X̄(j) + i w̄(i) (X(i) - X̄(j)), which is the same
/// with w̄ for -w. Makes places i and j, of one number or of a vector of them, of what was there.
template <bool forward, class Pair, class Roots>
void turn_pair(Pair& x, Pair& y, Roots w) {
  const Pair sum{x.re + y.re, x.im - y.im};
  const Pair gap{x.re - y.re, x.im + y.im};
  const auto re = forward ? gap.re * w.re - gap.im * w.im : -(gap.re * w.re + gap.im * w.im);
  const auto im = forward ? gap.re * w.im + gap.im * w.re : gap.re * w.im - gap.im * w.re;
  x = {sum.re + im, sum.im - re};
  y = {sum.re - im, -sum.im - re};
}
/// All places but those of 0 and n / 2, of which there are w.size() with the first one.
template <bool forward, class T>
void turn_line(const std::vector<Complex<T>>& w, T scale, const T* from, T* to) {
  const auto m = static_cast<int64_t>(w.size());
  int64_t i = 1;
  for (; 2 * (i + simd::Vec<T>::kWidth) <= m + 1; i += simd::Vec<T>::kWidth) {
    const int64_t j = m - i - simd::Vec<T>::kWidth + 1;
    auto x = load_numbers(from + 2 * i) * scale;
    auto y = reversed(load_numbers(from + 2 * j)) * scale;
    turn_pair<forward>(x, y, load_numbers(&w[static_cast<size_t>(i)].re));
    store_numbers(x, to + 2 * i);
    store_numbers(reversed(y), to + 2 * j);
  }
  for (; 2 * i <= m; ++i) {
    const int64_t j = m - i;
    Complex<T> x(scale * from[2 * i], scale * from[2 * i + 1]);
    Complex<T> y(scale * from[2 * j], scale * from[2 * j + 1]);
    turn_pair<forward>(x, y, w[static_cast<size_t>(i)]);
    to[2 * i] = x.re;
    to[2 * i + 1] = x.im;
    to[2 * j] = y.re;
    to[2 * j + 1] = y.im;
  }
}
/// In place.
template <class T>
void unfold(const std::vector<Complex<T>>& w, T scale, T* x) {
  const auto m = static_cast<int64_t>(w.size());
  const T re = x[0];
  const T im = x[1];
  turn_line<true>(w, scale / 2, x, x);
  x[0] = scale * (re + im);
  x[1] = 0;
  x[2 * m] = scale * (re - im);
  x[2 * m + 1] = 0;
}
/// The other way, to numbers whose backward transform are pairs of the real line.
template <class T>
void fold(const std::vector<Complex<T>>& w, const T* x, T* z) {
  const auto m = static_cast<int64_t>(w.size());
  z[0] = x[0] + x[2 * m];
  z[1] = x[0] - x[2 * m];
  turn_line<false>(w, T(1), x, z);
}

// Two real lines are the parts of one complex line z of n numbers; by symmetry their transforms,
// complex lines of m = n / 2 + 1 numbers, come apart.

/// From the transforms in the lanes of `data` to those of `count` lines.
template <bool full, class T>
void part_lanes(T* data, int64_t n, T half, T* to, int64_t count) {
  const int64_t m = n / 2 + 1;
  const Side<T> side{data};
  const LineSink<T, false, full> even{to, 4 * m, (count + 1) / 2, half};
  const LineSink<T, false, full> odd{to + 2 * m, 4 * m, count / 2, half};
  LaneTransform<T>::in_squares(m, [&]<class Count>(int64_t i, Count) {
    constexpr int64_t kCount = Count::value;
    alignas(simd::kBytes) T a[kCount * LanePair<T>::kStep];
    alignas(simd::kBytes) T b[kCount * LanePair<T>::kStep];
    for (int64_t k = 0; k < kCount; ++k) {
      const LanePair<T> x = side.one(i + k);
      const LanePair<T> y = side.one(i + k == 0 ? 0 : n - i - k);
      LanePair<T>{x.re + y.re, x.im - y.im}.store(a + k * LanePair<T>::kStep);
      LanePair<T>{x.im + y.im, y.re - x.re}.store(b + k * LanePair<T>::kStep);
    }
    LaneTransform<T>::template take<kCount>(even, i, a);
    LaneTransform<T>::template take<kCount>(odd, i, b);
  });
}
/// The other way, with the parts exchanged: the forward transform then runs backward.
template <bool full, class T>
void join_lanes(const T* from, int64_t n, int64_t count, T* data) {
  const int64_t m = n / 2 + 1;
  const Side<T> side{data};
  const LineSource<T, false, full> even{from, 4 * m, (count + 1) / 2};
  const LineSource<T, false, full> odd{from + (count > 1 ? 2 * m : 0), 4 * m,
                                       std::max<int64_t>(count / 2, 1)};
  LaneTransform<T>::in_squares(m, [&]<class Count>(int64_t i, Count) {
    constexpr int64_t kCount = Count::value;
    alignas(simd::kBytes) T first[kCount * LanePair<T>::kStep];
    alignas(simd::kBytes) T second[kCount * LanePair<T>::kStep];
    LaneTransform<T>::template bring<kCount>(even, i, first);
    LaneTransform<T>::template bring<kCount>(odd, i, second);
    for (int64_t k = 0; k < kCount; ++k) {
      auto a = LanePair<T>::load(first + k * LanePair<T>::kStep);
      auto b = LanePair<T>::load(second + k * LanePair<T>::kStep);
      // Of the first number, and of the middle one, the transform knows the real part alone.
      const int64_t at = i + k;
      const bool is_real = at == 0 || 2 * at == n;
      if (is_real) a.im = b.im = simd::Vec<T>(0);
      side.put(at, {a.im + b.re, a.re - b.im});
      if (!is_real) side.put(n - at, {b.re - a.im, a.re + b.im});
    }
  });
}

}  // namespace mica::fft
