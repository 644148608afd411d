#pragma once

#include <cmath>

#include "mica/runtime/cpu/exp.h"

// Softmax of one contiguous row. For files of both widths of vectors (runtime/cpu/vec.h), so
// nothing may be included here but what exp.h needs.
namespace mica::softmax_row {

/// By vectors of 64 bytes, for processors with AVX-512 (`has_avx512`): float and double.
template <bool logarithm, class C>
void compute_avx512(const C* x, C* y, int64_t n);

#if defined(__AVX512F__)
inline namespace avx512 {
#else
inline namespace avx2 {
#endif

using simd::Vec;

template <class C>
inline constexpr int64_t kWidth = Vec<C>::kWidth;
template <class C>
inline constexpr C kLeast = -std::numeric_limits<C>::infinity();
inline constexpr int64_t kSummedInC = 4096;  // elements; beyond them a long row would lose digits

// Up to a vector of elements; the other lanes are `rest`.
#if defined(__AVX512F__)
inline uint16_t lanes(int64_t count) { return static_cast<uint16_t>((1U << count) - 1); }
inline Vec<float> load(const float* p, int64_t count, float rest) {
  return Vec<float>(_mm512_mask_loadu_ps(Vec<float>(rest).v, lanes(count), p));
}
inline Vec<double> load(const double* p, int64_t count, double rest) {
  return Vec<double>(
      _mm512_mask_loadu_pd(Vec<double>(rest).v, static_cast<uint8_t>(lanes(count)), p));
}
inline void store(Vec<float> x, float* p, int64_t count) {
  _mm512_mask_storeu_ps(p, lanes(count), x.v);
}
inline void store(Vec<double> x, double* p, int64_t count) {
  _mm512_mask_storeu_pd(p, static_cast<uint8_t>(lanes(count)), x.v);
}
#else
template <class C>
Vec<C> load(const C* p, int64_t count, C rest) {
  if (count >= kWidth<C>) return Vec<C>::load(p);
  Vec<C> x(rest);
  for (int64_t i = 0; i < count; ++i) x.v[i] = p[i];
  return x;
}
template <class C>
void store(Vec<C> x, C* p, int64_t count) {
  if (count >= kWidth<C>) return x.store(p);
  for (int64_t i = 0; i < count; ++i) p[i] = x[static_cast<int>(i)];
}
#endif

/// Joins f(i, count) of all vectors of a row with `join`, in four chains that hide its latency.
template <class C, class F, class Join>
Vec<C> fold(int64_t n, C start, F&& f, Join&& join) {
  constexpr int64_t kStep = kWidth<C>;
  Vec<C> a(start), b = a, c = a, d = a;
  int64_t i = 0;
  for (; i + 4 * kStep <= n; i += 4 * kStep) {
    a = join(f(i, kStep), a);
    b = join(f(i + kStep, kStep), b);
    c = join(f(i + 2 * kStep, kStep), c);
    d = join(f(i + 3 * kStep, kStep), d);
  }
  for (; i + kStep <= n; i += kStep) a = join(f(i, kStep), a);
  if (i < n) b = join(f(i, n - i), b);
  return join(join(a, b), join(c, d));
}

/// -infinity for a row of none. NaN does not count: it comes back with the exponentials.
template <class C>
C largest(const C* x, int64_t n) {
  const Vec<C> lanes = fold<C>(
      n, kLeast<C>, [&](int64_t i, int64_t count) { return load(x + i, count, kLeast<C>); },
      [](Vec<C> a, Vec<C> b) { return select(a > b, a, b); });
  C largest = kLeast<C>;
  for (int k = 0; k < kWidth<C>; ++k) largest = lanes[k] > largest ? lanes[k] : largest;
  return largest;
}

/// y may be x.
template <bool logarithm, class C>
void compute(const C* x, C* y, int64_t n) {
  const Vec<C> shift(largest(x, n));
  // Without the logarithm y keeps the exponentials until their sum is known.
  double sum = 0;
  for (int64_t begin = 0; begin < n; begin += kSummedInC) {
    const int64_t some = n - begin < kSummedInC ? n - begin : kSummedInC;
    const Vec<C> lanes = fold<C>(
        some, C(0),
        [&](int64_t i, int64_t count) {
          const Vec<C> e = simd::exp_inline(load(x + begin + i, count, kLeast<C>) - shift);
          if constexpr (!logarithm) store(e, y + begin + i, count);
          return e;
        },
        [](Vec<C> a, Vec<C> b) { return a + b; });
    sum += static_cast<double>(simd::sum_lanes(lanes));
  }
  const Vec<C> last(logarithm ? std::log(sum) : 1 / sum);
  const auto finish = [&](int64_t i, int64_t count) {
    const Vec<C> v = load(logarithm ? x + i : y + i, count, C(0));
    store(logarithm ? v - shift - last : v * last, y + i, count);
  };
  int64_t i = 0;
  for (; i + kWidth<C> <= n; i += kWidth<C>) finish(i, kWidth<C>);
  if (i < n) finish(i, n - i);
}

}  // inline namespace
}  // namespace mica::softmax_row
