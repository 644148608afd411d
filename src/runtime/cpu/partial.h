#pragma once

// Vectors of fewer elements than they have lanes. For files of both widths (runtime/cpu/vec.h), so
// nothing may be included here but what vec.h needs.
#include "mica/runtime/cpu/vec.h"

namespace mica::simd {
#if defined(__AVX512F__)
inline namespace avx512 {
#else
inline namespace avx2 {
#endif

#if defined(__AVX512F__)
// Of fewer elements than lanes.
inline uint16_t lanes(int64_t count) { return static_cast<uint16_t>((1U << count) - 1); }
inline Vec<float> load_some(const float* p, int64_t count, float rest) {
  return Vec<float>(_mm512_mask_loadu_ps(Vec<float>(rest).v, lanes(count), p));
}
inline Vec<double> load_some(const double* p, int64_t count, double rest) {
  return Vec<double>(
      _mm512_mask_loadu_pd(Vec<double>(rest).v, static_cast<uint8_t>(lanes(count)), p));
}
inline void store_some(Vec<float> x, float* p, int64_t count) {
  _mm512_mask_storeu_ps(p, lanes(count), x.v);
}
inline void store_some(Vec<double> x, double* p, int64_t count) {
  _mm512_mask_storeu_pd(p, static_cast<uint8_t>(lanes(count)), x.v);
}
#else
template <class C>
Vec<C> load_some(const C* p, int64_t count, C rest) {
  Vec<C> x(rest);
  for (int64_t i = 0; i < count; ++i) x.v[i] = p[i];
  return x;
}
template <class C>
void store_some(Vec<C> x, C* p, int64_t count) {
  for (int64_t i = 0; i < count; ++i) p[i] = x[static_cast<int>(i)];
}
#endif

/// Up to a vector of elements; the other lanes are `rest`.
template <class C>
Vec<C> load_part(const C* p, int64_t count, C rest) {
  return count >= Vec<C>::kWidth ? Vec<C>::load(p) : load_some(p, count, rest);
}
template <class C>
void store_part(Vec<C> x, C* p, int64_t count) {
  if (count >= Vec<C>::kWidth) return x.store(p);
  store_some(x, p, count);
}

}  // inline namespace
}  // namespace mica::simd
