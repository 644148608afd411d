#pragma once

// Numbers as they lie in tensors, and in lanes: the sources and sinks of a LaneTransform. Each
// brings or takes one element of all lanes, or a square: kSquare elements from one on. `exchanged`
// parts come and go in the other order.
#include <algorithm>

#include "mica/ops/fft/cpu_lanes.h"

namespace mica::fft {

// By as few shuffles as there can be, lane j holds line lane_of(j), an order that is its own
// inverse.
template <class T>
constexpr int lane_of(int64_t line) {
  constexpr int kFloats[] = {0, 1, 4, 5, 2, 3, 6, 7};
  constexpr int kDoubles[] = {0, 2, 1, 3};
  if constexpr (sizeof(T) == 4) return kFloats[line];
  return kDoubles[line];
}

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
/// Each half of the vectors by itself.
inline void transpose_halves(__m256 (&v)[4]) {
  const __m256 a = _mm256_unpacklo_ps(v[0], v[1]);
  const __m256 b = _mm256_unpackhi_ps(v[0], v[1]);
  const __m256 c = _mm256_unpacklo_ps(v[2], v[3]);
  const __m256 d = _mm256_unpackhi_ps(v[2], v[3]);
  v[0] = _mm256_shuffle_ps(a, c, 0x44);
  v[1] = _mm256_shuffle_ps(a, c, 0xEE);
  v[2] = _mm256_shuffle_ps(b, d, 0x44);
  v[3] = _mm256_shuffle_ps(b, d, 0xEE);
}
inline void transpose_halves(__m256d (&v)[2]) {
  const __m256d a = _mm256_unpacklo_pd(v[0], v[1]);
  v[1] = _mm256_unpackhi_pd(v[0], v[1]);
  v[0] = a;
}
inline __m256 load_halves(const float* low, const float* high) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
}
inline __m256d load_halves(const double* low, const double* high) {
  return _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(low)), _mm_loadu_pd(high), 1);
}
inline void store_low(__m256 x, float* to) { _mm_storeu_ps(to, _mm256_castps256_ps128(x)); }
inline void store_low(__m256d x, double* to) { _mm_storeu_pd(to, _mm256_castpd256_pd128(x)); }
inline void store_high(__m256 x, float* to) { _mm_storeu_ps(to, _mm256_extractf128_ps(x, 1)); }
inline void store_high(__m256d x, double* to) { _mm_storeu_pd(to, _mm256_extractf128_pd(x, 1)); }

/// Complex numbers side by side and their parts apart, number lane_of(j) in lane j.
inline LanePair<float> parts_of(__m256 a, __m256 b) {
  return {simd::Vec<float>(_mm256_shuffle_ps(a, b, 0x88)),
          simd::Vec<float>(_mm256_shuffle_ps(a, b, 0xDD))};
}
inline LanePair<double> parts_of(__m256d a, __m256d b) {
  return {simd::Vec<double>(_mm256_unpacklo_pd(a, b)), simd::Vec<double>(_mm256_unpackhi_pd(a, b))};
}
inline LanePair<float> load_numbers(const float* p) {
  return parts_of(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8));
}
inline LanePair<double> load_numbers(const double* p) {
  return parts_of(_mm256_loadu_pd(p), _mm256_loadu_pd(p + 4));
}
inline void store_numbers(LanePair<float> x, float* p) {
  _mm256_storeu_ps(p, _mm256_unpacklo_ps(x.re.v, x.im.v));
  _mm256_storeu_ps(p + 8, _mm256_unpackhi_ps(x.re.v, x.im.v));
}
inline void store_numbers(LanePair<double> x, double* p) {
  _mm256_storeu_pd(p, _mm256_unpacklo_pd(x.re.v, x.im.v));
  _mm256_storeu_pd(p + 4, _mm256_unpackhi_pd(x.re.v, x.im.v));
}
/// The first `lanes` numbers alone, zeros beside them.
template <class T>
LanePair<T> load_numbers(const T* p, int64_t lanes) {
  alignas(simd::kBytes) T numbers[LanePair<T>::kStep] = {};
  std::copy(p, p + 2 * lanes, numbers);
  return load_numbers(numbers);
}
template <class T>
void store_numbers(LanePair<T> x, T* p, int64_t lanes) {
  alignas(simd::kBytes) T numbers[LanePair<T>::kStep];
  store_numbers(x, numbers);
  std::copy(numbers, numbers + 2 * lanes, p);
}
/// The lanes in the opposite order, which is that of the numbers too.
inline LanePair<float> reversed(LanePair<float> x) {
  const __m256i order = _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0);
  return {simd::Vec<float>(_mm256_permutevar8x32_ps(x.re.v, order)),
          simd::Vec<float>(_mm256_permutevar8x32_ps(x.im.v, order))};
}
inline LanePair<double> reversed(LanePair<double> x) {
  return {simd::Vec<double>(_mm256_permute4x64_pd(x.re.v, 0x1B)),
          simd::Vec<double>(_mm256_permute4x64_pd(x.im.v, 0x1B))};
}

/// A square of complex numbers of as many lines as there are lanes; `line(l)` is where line l's
/// are.
template <class F>
[[gnu::always_inline]] inline void load_square(F&& line, LanePair<float> (&to)[4]) {
  __m256d low[4];
  __m256d high[4];
#pragma GCC unroll 16
  for (int i = 0; i < 4; ++i) {
    low[i] = _mm256_castps_pd(_mm256_loadu_ps(line(i)));
    high[i] = _mm256_castps_pd(_mm256_loadu_ps(line(i + 4)));
  }
  transpose(low);
  transpose(high);
#pragma GCC unroll 16
  for (int i = 0; i < 4; ++i) to[i] = parts_of(_mm256_castpd_ps(low[i]), _mm256_castpd_ps(high[i]));
}
template <class F>
[[gnu::always_inline]] inline void load_square(F&& line, LanePair<double> (&to)[2]) {
  __m256d v[4];
#pragma GCC unroll 16
  for (int i = 0; i < 4; ++i) v[i] = _mm256_loadu_pd(line(i));
  to[0] =
      parts_of(_mm256_permute2f128_pd(v[0], v[1], 0x20), _mm256_permute2f128_pd(v[2], v[3], 0x20));
  to[1] =
      parts_of(_mm256_permute2f128_pd(v[0], v[1], 0x31), _mm256_permute2f128_pd(v[2], v[3], 0x31));
}
/// The lines' numbers, in vectors of which the first `count` are stored.
template <class F>
[[gnu::always_inline]] inline void store_square(const LanePair<float> (&from)[4], F&& line,
                                                int64_t count) {
  __m256d low[4];
  __m256d high[4];
#pragma GCC unroll 16
  for (int i = 0; i < 4; ++i) {
    low[i] = _mm256_castps_pd(_mm256_unpacklo_ps(from[i].re.v, from[i].im.v));
    high[i] = _mm256_castps_pd(_mm256_unpackhi_ps(from[i].re.v, from[i].im.v));
  }
  transpose(low);
  transpose(high);
#pragma GCC unroll 16
  for (int i = 0; i < 4; ++i) {
    if (i < count) _mm256_storeu_ps(line(i), _mm256_castpd_ps(low[i]));
    if (i + 4 < count) _mm256_storeu_ps(line(i + 4), _mm256_castpd_ps(high[i]));
  }
}
template <class F>
[[gnu::always_inline]] inline void store_square(const LanePair<double> (&from)[2], F&& line,
                                                int64_t count) {
  __m256d low[2];
  __m256d high[2];
#pragma GCC unroll 16
  for (int i = 0; i < 2; ++i) {
    low[i] = _mm256_unpacklo_pd(from[i].re.v, from[i].im.v);
    high[i] = _mm256_unpackhi_pd(from[i].re.v, from[i].im.v);
  }
  const __m256d lines[4] = {_mm256_permute2f128_pd(low[0], low[1], 0x20),
                            _mm256_permute2f128_pd(low[0], low[1], 0x31),
                            _mm256_permute2f128_pd(high[0], high[1], 0x20),
                            _mm256_permute2f128_pd(high[0], high[1], 0x31)};
#pragma GCC unroll 16
  for (int i = 0; i < 4; ++i)
    if (i < count) _mm256_storeu_pd(line(i), lines[i]);
}

/// Lines one after the other, `line` values from each to the next; of fewer than there are lanes
/// the last one stands in for the others.
template <class T, bool exchanged, bool full>
struct LineSource {
  static constexpr bool kSingle = false;
  static constexpr bool kJoins = full;
  const T* from;
  int64_t line;
  int64_t count;

  const T* of(int64_t l) const { return from + (full ? l : std::min(l, count - 1)) * line; }
  [[gnu::always_inline]] LanePair<T> one(int64_t i) const {
    alignas(simd::kBytes) T parts[LanePair<T>::kStep];
    constexpr int64_t kWidth = simd::Vec<T>::kWidth;
    for (int64_t j = 0; j < kWidth; ++j) {
      const T* number = of(lane_of<T>(j)) + 2 * i;
      parts[j] = number[0];
      parts[kWidth + j] = number[1];
    }
    return exchanged_if<exchanged>(LanePair<T>::load(parts));
  }
  [[gnu::always_inline]] void square(int64_t i, T* to) const {
    LanePair<T> x[kSquare<T>];
    load_square([&](int64_t l) { return of(l) + 2 * i; }, x);
#pragma GCC unroll 16
    for (int64_t k = 0; k < kSquare<T>; ++k)
      exchanged_if<exchanged>(x[k]).store(to + k * LanePair<T>::kStep);
  }
};
template <class T, bool exchanged, bool full>
struct LineSink {
  static constexpr bool kSingle = false;
  static constexpr bool kJoins = full;
  T* to;
  int64_t line;
  int64_t count;
  T scale;

  [[gnu::always_inline]] void put(int64_t i, LanePair<T> x) const {
    alignas(simd::kBytes) T parts[LanePair<T>::kStep];
    constexpr int64_t kWidth = simd::Vec<T>::kWidth;
    exchanged_if<exchanged>(x * scale).store(parts);
    for (int64_t l = 0; l < (full ? kWidth : count); ++l) {
      to[l * line + 2 * i] = parts[lane_of<T>(l)];
      to[l * line + 2 * i + 1] = parts[kWidth + lane_of<T>(l)];
    }
  }
  [[gnu::always_inline]] void put_square(int64_t i, const T* from) const {
    LanePair<T> x[kSquare<T>];
#pragma GCC unroll 16
    for (int64_t k = 0; k < kSquare<T>; ++k)
      x[k] = exchanged_if<exchanged>(LanePair<T>::load(from + k * LanePair<T>::kStep) * scale);
    store_square(
        x, [&](int64_t l) { return to + l * line + 2 * i; }, full ? simd::Vec<T>::kWidth : count);
  }
};

/// Lines side by side, `step` values from each number to the next one of its line.
template <class T, bool exchanged, bool full>
struct ColumnSource {
  static constexpr bool kSingle = true;
  static constexpr bool kJoins = full;
  const T* from;
  int64_t step;
  int64_t count;

  [[gnu::always_inline]] LanePair<T> one(int64_t i) const {
    const T* p = from + i * step;
    return exchanged_if<exchanged>(full ? load_numbers(p) : load_numbers(p, count));
  }
};
template <class T, bool exchanged, bool full>
struct ColumnSink {
  static constexpr bool kSingle = true;
  static constexpr bool kJoins = full;
  T* to;
  int64_t step;
  int64_t count;
  T scale;

  [[gnu::always_inline]] void put(int64_t i, LanePair<T> x) const {
    const LanePair<T> scaled = exchanged_if<exchanged>(x * scale);
    T* p = to + i * step;
    full ? store_numbers(scaled, p) : store_numbers(scaled, p, count);
  }
};

/// Real lines, two for each lane: the even ones are real parts, the odd ones imaginary parts.
template <class T, bool full>
struct RealLineSource {
  static constexpr bool kSingle = false;
  static constexpr bool kJoins = full;
  const T* from;
  int64_t line;
  int64_t count;

  const T* of(int64_t lane, int part) const {
    const int64_t l = 2 * lane_of<T>(lane) + part;
    return from + (full ? l : std::min(l, count - 1)) * line;
  }
  [[gnu::always_inline]] LanePair<T> one(int64_t i) const {
    alignas(simd::kBytes) T parts[LanePair<T>::kStep];
    constexpr int64_t kWidth = simd::Vec<T>::kWidth;
    for (int64_t j = 0; j < 2 * kWidth; ++j) parts[j] = of(j % kWidth, j >= kWidth)[i];
    return LanePair<T>::load(parts);
  }
  [[gnu::always_inline]] void square(int64_t i, T* to) const {
#pragma GCC unroll 16
    for (int part = 0; part < 2; ++part) {
      decltype(load_halves(from, from)) v[kSquare<T>];
#pragma GCC unroll 16
      for (int64_t j = 0; j < kSquare<T>; ++j)
        v[j] = load_halves(of(j, part) + i, of(j + kSquare<T>, part) + i);
      transpose_halves(v);
#pragma GCC unroll 16
      for (int64_t k = 0; k < kSquare<T>; ++k)
        simd::Vec<T>(v[k]).store(to + (2 * k + part) * simd::Vec<T>::kWidth);
    }
  }
};
/// The odd lines are the real parts here: of a transform that ran backward.
template <class T, bool full>
struct RealLineSink {
  static constexpr bool kSingle = false;
  static constexpr bool kJoins = full;
  T* to;
  int64_t line;
  int64_t count;
  T scale;

  [[gnu::always_inline]] void put(int64_t i, LanePair<T> x) const {
    alignas(simd::kBytes) T parts[LanePair<T>::kStep];
    constexpr int64_t kWidth = simd::Vec<T>::kWidth;
    exchanged_if<true>(x * scale).store(parts);
    for (int64_t l = 0; l < (full ? 2 * kWidth : count); ++l)
      to[l * line + i] = parts[l % 2 * kWidth + lane_of<T>(l / 2)];
  }
  [[gnu::always_inline]] void put_square(int64_t i, const T* from) const {
#pragma GCC unroll 16
    for (int part = 0; part < 2; ++part) {
      decltype(load_halves(to, to)) v[kSquare<T>];
#pragma GCC unroll 16
      for (int64_t k = 0; k < kSquare<T>; ++k)
        v[k] = (simd::Vec<T>::load(from + (2 * k + 1 - part) * simd::Vec<T>::kWidth) *
                simd::Vec<T>(scale))
                   .v;
      transpose_halves(v);
#pragma GCC unroll 16
      for (int64_t j = 0; j < kSquare<T>; ++j) {
        const int64_t low = 2 * lane_of<T>(j) + part;
        const int64_t high = 2 * lane_of<T>(j + kSquare<T>) + part;
        if (full || low < count) store_low(v[j], to + low * line + i);
        if (full || high < count) store_high(v[j], to + high * line + i);
      }
    }
  }
};

}  // namespace mica::fft
