#pragma once

#include <cmath>

#include "mica/runtime/cpu/exp.h"
#include "mica/runtime/cpu/partial.h"

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

using simd::load_part;
using simd::store_part;
using simd::Vec;

template <class C>
inline constexpr int64_t kWidth = Vec<C>::kWidth;
template <class C>
inline constexpr C kLeast = -std::numeric_limits<C>::infinity();
inline constexpr int64_t kSummedInC = 4096;  // elements; beyond them a long row would lose digits

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
      n, kLeast<C>, [&](int64_t i, int64_t count) { return load_part(x + i, count, kLeast<C>); },
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
          const Vec<C> e = simd::exp_inline(load_part(x + begin + i, count, kLeast<C>) - shift);
          if constexpr (!logarithm) store_part(e, y + begin + i, count);
          return e;
        },
        [](Vec<C> a, Vec<C> b) { return a + b; });
    sum += static_cast<double>(simd::sum_lanes(lanes));
  }
  const Vec<C> last(logarithm ? std::log(sum) : 1 / sum);
  const auto finish = [&](int64_t i, int64_t count) {
    const Vec<C> v = load_part(logarithm ? x + i : y + i, count, C(0));
    store_part(logarithm ? v - shift - last : v * last, y + i, count);
  };
  int64_t i = 0;
  for (; i + kWidth<C> <= n; i += kWidth<C>) finish(i, kWidth<C>);
  if (i < n) finish(i, n - i);
}

}  // inline namespace
}  // namespace mica::softmax_row
