#pragma once

#include <bit>
#include <initializer_list>

#include "mica/runtime/cpu/simd.h"

namespace mica::simd {

// The lesser and the greater of two; b where one is NaN.
#if defined(__AVX2__)
inline Vec<float> lesser(Vec<float> a, Vec<float> b) { return Vec<float>(_mm256_min_ps(a.v, b.v)); }
inline Vec<float> greater(Vec<float> a, Vec<float> b) {
  return Vec<float>(_mm256_max_ps(a.v, b.v));
}
#else
inline Vec<float> lesser(Vec<float> a, Vec<float> b) { return select(a < b, a, b); }
inline Vec<float> greater(Vec<float> a, Vec<float> b) { return select(a > b, a, b); }
#endif

/// e^x, inlined into the loop that uses it: 2^n times a polynomial for e^r with |r| <= log(2) / 2,
/// within two ulp. Below e^-87.6 it is 0, above e^88.3 infinite.
inline Vec<float> exp_inline(Vec<float> x) {
  using Bits [[gnu::vector_size(32)]] = int32_t;
  // From 88.37 on n is 128 and the power infinite, below -87.68 it is -127 and the power 0.
  const Vec<float> inside = greater(Vec<float>(-88.02F), lesser(Vec<float>(88.8F), x));
  const Vec<float> n = round_even(inside * Vec<float>(1.44269504F));
  const Vec<float> r = inside - n * Vec<float>(0.693145752F) - n * Vec<float>(1.42860677e-6F);
  Vec<float> p(1.9875691500e-4F);
  for (const float c : {1.3981999507e-3F, 8.3334519073e-3F, 4.1665795894e-2F, 1.6666665459e-1F,
                        5.0000001201e-1F, 1.0F, 1.0F})
    p = p * r + Vec<float>(c);
  const Bits power = (__builtin_convertvector(n.v, Bits) + 127) << 23;
  return p * Vec<float>(std::bit_cast<Vec<float>::Raw>(power));
}
inline Vec<double> exp_inline(Vec<double> x) { return exp(x); }

}  // namespace mica::simd
