#pragma once

#include <bit>
#include <initializer_list>

#include "mica/runtime/cpu/simd.h"

namespace mica::simd {

/// e^x, inlined into the loop that uses it: 2^n times a polynomial for e^r with |r| <= log(2) / 2,
/// within one ulp. Results below the smallest normal number are 0.
inline Vec<float> exp_inline(Vec<float> x) {
  using Bits [[gnu::vector_size(32)]] = int32_t;
  constexpr float kSmallest = -87.33654F;
  constexpr float kLargest = 88.72283F;
  const Vec<float> inside = select(x < Vec<float>(kSmallest), Vec<float>(kSmallest),
                                   select(x > Vec<float>(kLargest), Vec<float>(kLargest), x));
  const Vec<float> n = round_even(inside * Vec<float>(1.44269504F));
  const Vec<float> r = inside - n * Vec<float>(0.693145752F) - n * Vec<float>(1.42860677e-6F);
  Vec<float> p(1.9875691500e-4F);
  for (const float c :
       {1.3981999507e-3F, 8.3334519073e-3F, 4.1665795894e-2F, 1.6666665459e-1F, 5.0000001201e-1F})
    p = p * r + Vec<float>(c);
  p = r * r * p + r + Vec<float>(1);
  // p is in [0.7, 1.42]: its exponent's field takes n without leaving the normal numbers.
  const Bits exponent = __builtin_convertvector(n.v, Bits) << 23;
  const auto scaled =
      Vec<float>(std::bit_cast<Vec<float>::Raw>(std::bit_cast<Bits>(p.v) + exponent));
  return select(x < Vec<float>(kSmallest), Vec<float>(0),
                select(x > Vec<float>(kLargest), Vec<float>(INFINITY), scaled));
}
inline Vec<double> exp_inline(Vec<double> x) { return exp(x); }

}  // namespace mica::simd
