#pragma once

#include "mica/runtime/cpu/simd.h"

namespace mica::simd {
#if defined(__AVX512F__)
inline namespace avx512 {
#else
inline namespace avx2 {
#endif

/// e^x within two ulp, without denormal results: below e^-87.6 it is 0, above e^88.3 infinite.
inline Vec<float> exp_inline(Vec<float> x) {
  using F = Vec<float>;
  // From 88.37 on n is 128 and the power infinite, below -87.68 it is -127 and the power 0.
  const auto [n, p] = exp_parts(greater(F(-88.02F), lesser(F(88.8F), x)));
  return p * power_of_2(__builtin_convertvector(n.v, Bits<float>));
}
inline Vec<double> exp_inline(Vec<double> x) { return exp(x); }

}  // inline namespace
}  // namespace mica::simd
