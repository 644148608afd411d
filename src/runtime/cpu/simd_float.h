#pragma once

// exp, log, sin, cos, tanh and erf of floats as polynomials, inlined into the loops that use them.
// They are within two units in the last place (erf within 2.5; tests/unit/simd_test.cpp), of every
// argument: infinite, NaN, denormal or huge.
#include <cmath>

#include "mica/runtime/cpu/vec.h"

namespace mica::simd {
#if defined(__AVX512F__)
inline namespace avx512 {
#else
inline namespace avx2 {
#endif

/// The polynomial whose coefficients are given from the highest power down.
template <class... C>
Vec<float> polynomial(Vec<float> x, float highest, C... rest) {
  Vec<float> p(highest);
  ((p = fma(p, x, Vec<float>(rest))), ...);
  return p;
}

/// Brings the units of a float below 2^22 to its last bits: adding it rounds to a whole number.
inline constexpr float kUnitsLast = 0x1.8p23F;
/// log(2) in two parts; the products of the first with whole numbers of nine bits are exact.
inline constexpr float kLog2High = 0x1.62e4p-1F;
inline constexpr float kLog2Low = 1.42860677e-6F;

/// The whole number n nearest to x / log(2), and e^(x - n log(2)).
struct ExpParts {
  Vec<float> n, p;
};
inline ExpParts exp_parts(Vec<float> x) {
  using F = Vec<float>;
  const F n = fma(x, F(1.44269504F), F(kUnitsLast)) - F(kUnitsLast);
  const F r = fma(n, F(-kLog2Low), fma(n, F(-kLog2High), x));
  return {n, polynomial(r, 0.00138194847F, 0.0083686905F, 0.041668281F, 0.166665211F, 0.49999994F,
                        1.0F, 1.0F)};
}
/// 2^n for whole numbers from -127, which gives 0, to 128, which gives infinity.
inline Vec<float> power_of_2(Bits<float> n) { return from_bits<float>((n + 127) << 23); }

inline Vec<float> exp(Vec<float> x) {
  using F = Vec<float>;
  // Infinite from 88.73 on, 0 below -103.98; NaN stays.
  const auto [n, p] = exp_parts(greater(F(-105.0F), lesser(F(89.0F), x)));
#if defined(__AVX512F__)
  return F(_mm512_scalef_ps(p.v, n.v));
#else
  // In two steps, so that denormal numbers are reached.
  const auto whole = __builtin_convertvector(n.v, Bits<float>);
  const auto half = whole >> 1;
  return p * power_of_2(half) * power_of_2(whole - half);
#endif
}

/// x as m * 2^e with m in [0.75, 1.5). Where x is 0 or infinite, e is minus or plus infinite;
/// m or e is NaN where x is NaN or negative.
struct Split {
  Vec<float> m, e;
};
inline Split split(Vec<float> x) {
  using F = Vec<float>;
#if defined(__AVX512F__)
  const F m(_mm512_getmant_ps(x.v, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan));
  return {m, F(_mm512_getexp_ps(x.v)) - F(_mm512_getexp_ps(m.v))};
#else
  const auto parts = [](F y) {
    // Negative numbers, whose result is not used, may wrap around.
    using Unsigned __attribute__((vector_size(sizeof(Bits<float>)))) = uint32_t;
    const auto bits = __builtin_bit_cast(Unsigned, y.v);
    const auto e = __builtin_bit_cast(Bits<float>, bits - 0x3f400000U) >> 23;
    const Unsigned m = bits - (__builtin_bit_cast(Unsigned, e) << 23);
    return Split{F(__builtin_bit_cast(F::Raw, m)), F(__builtin_convertvector(e, F::Raw))};
  };
  constexpr float kLeast = std::numeric_limits<float>::min();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if (!any(!((x >= F(kLeast)) & (x < F(kInfinity))))) return parts(x);
  const Mask<float> small = x < F(kLeast);
  const auto [m, e] = parts(select(small, x * F(0x1p23F), x));
  const F edge = select(x == F(0.0F), F(-kInfinity), select(x < F(0.0F), F(NAN), x));
  return {m, select((x > F(0.0F)) & (x < F(kInfinity)), select(small, e - F(23.0F), e), edge)};
#endif
}

inline Vec<float> log(Vec<float> x) {
  using F = Vec<float>;
  const auto [m, e] = split(x);
  const F f = m - F(1.0F);
  const F f2 = f * f;
  const F q = polynomial(f, -0.0451023877F, 0.104696997F, -0.131655514F, 0.144788966F,
                         -0.166469783F, 0.199907884F, -0.250001013F, 0.333334506F);
  const F y = fma(e, F(kLog2Low), f2 * fma(f, q, F(-0.5F)));
  return fma(e, F(kLog2High), f + y);
}

/// y, negated where x has a minus sign.
inline Vec<float> signed_as(Vec<float> y, Vec<float> x) {
  return from_bits<float>(bits_of(y) ^ (bits_of(x) & std::numeric_limits<int32_t>::min()));
}

/// sin(x - n pi), negated where n is odd. n is x / pi (less 1/2 for the cosine) rounded, in the
/// last bits of `units`; `halves` is what to take off, in halves of pi.
inline Vec<float> sin_from(Vec<float> x, Vec<float> units, Vec<float> halves) {
  using F = Vec<float>;
  // pi / 2 in three parts: the first difference is exact.
  F r = fma(halves, F(-1.57079625F), x);
  r = fma(halves, F(-7.54978942e-08F), r);
  r = fma(halves, F(-5.39030295e-15F), r);
  const F s = r * r;
  const F q = polynomial(s, 2.59950184e-06F, -0.00019806849F, 0.00833303016F, -0.166666582F);
  const F y = fma(r * s, q, r);
  return from_bits<float>(bits_of(y) ^ (bits_of(units) << 31));
}
/// Up to here the reduction holds; beyond, lanes are computed one by one.
inline constexpr float kLargeAngle = 1e5F;

inline Vec<float> sin(Vec<float> x) {
  using F = Vec<float>;
  const F size = abs(x);
  if (any(!(size < F(kLargeAngle)))) return each_lane(x, [](float v) { return ::sinf(v); });
  const F units = fma(size, F(0.318309886F), F(kUnitsLast));
  return signed_as(sin_from(size, units, F(2.0F) * (units - F(kUnitsLast))), x);
}
inline Vec<float> cos(Vec<float> x) {
  using F = Vec<float>;
  if (any(!(abs(x) < F(kLargeAngle)))) return each_lane(x, [](float v) { return ::cosf(v); });
  // cos(x) = -sin(x - pi / 2): an odd number of halves is taken off.
  const F units = fma(x, F(0.318309886F), F(-0.5F)) + F(kUnitsLast);
  return -sin_from(x, units, fma(F(2.0F), units - F(kUnitsLast), F(1.0F)));
}

/// Eight numbers, one for each part of a function's domain.
struct Parts {
  float of[8];
};
/// Lane by lane the number of the part whose index is in the last three bits of `index`.
inline Vec<float> pick(const Parts& parts, Bits<float> index) {
#if defined(__AVX512F__)
  const __m512 twice = _mm512_broadcast_f32x8(_mm256_loadu_ps(parts.of));
  return Vec<float>(_mm512_permutexvar_ps(reinterpret_cast<__m512i>(index), twice));
#elif defined(__AVX2__)
  return Vec<float>(
      _mm256_permutevar8x32_ps(_mm256_loadu_ps(parts.of), reinterpret_cast<__m256i>(index)));
#else
  Vec<float> x;
  for (int i = 0; i < Vec<float>::kWidth; ++i) x.v[i] = parts.of[index[i] & 7];
  return x;
#endif
}
/// A polynomial for each part, given from the highest power down.
inline Vec<float> polynomial(Vec<float> x, const Parts (&coefficients)[8], Bits<float> part) {
  Vec<float> p = pick(coefficients[0], part);
  for (int i = 1; i < 8; ++i) p = fma(p, x, pick(coefficients[i], part));
  return p;
}
/// A polynomial in the distance from a point of each part; the first point is 0, where small
/// numbers keep their digits. Past 9.02 it is 1.
inline Vec<float> tanh(Vec<float> x) {
  using F = Vec<float>;
  // The parts begin at 0, 0.25, 0.75, 1.25, 2.25, 3.25, 5.25 and 7.25: half octaves of |x| + 0.75.
  static constexpr Parts kPoints = {{1.75F, 2.75F, 4.25F, 6.25F, 8.25F, 0.0F, 0.5F, 1.0F}};
  static constexpr Parts kCoefficients[] = {
      {{-0.00199742848F, 0.000101164034F, 1.13624574e-05F, 2.10389246e-07F, -4.70334527e-07F,
        -0.0514227152F, 0.0247837305F, 0.00129008037F}},
      {{0.00245379773F, -0.000564596092F, -4.05747633e-05F, -8.44911824e-07F, -1.06627567e-06F,
        0.0F, -0.0503664501F, 0.0154947117F}},
      {{0.0036981646F, 0.00190412626F, 0.000106750733F, 1.97519898e-06F, 4.24780211e-07F,
        0.133241758F, -0.0269461814F, -0.0461743474F}},
      {{-0.0236026049F, -0.00509283459F, -0.000267626834F, -4.78375387e-06F, 1.16612102e-06F, 0.0F,
        0.164732069F, 0.0279868338F}},
      {{0.0629219264F, 0.0105465809F, 0.000542013091F, 9.93918366e-06F, 1.21881627e-07F,
        -0.33333239F, -0.0942078233F, 0.103600949F}},
      {{-0.107135117F, -0.0160829742F, -0.000813630293F, -1.49632297e-05F, -6.54407074e-07F, 0.0F,
        -0.363432854F, -0.319856077F}},
      {{0.113812089F, 0.0162142869F, 0.000813520397F, 1.49065017e-05F, 2.73024796e-07F, 1.0F,
        0.786447763F, 0.419974357F}},
      {{0.941375494F, 0.991859734F, 0.999593139F, 0.999992549F, 0.999999881F, 0.0F, 0.462117165F,
        0.761594176F}},
  };
  const F size = lesser(F(9.02F), abs(x));
  const Bits<float> part = bits_of(size + F(0.75F)) >> 22;
  return signed_as(polynomial(size - pick(kPoints, part), kCoefficients, part), x);
}

/// The same around the multiples of 1/2. Past 3.93 it is 1.
inline Vec<float> erf(Vec<float> x) {
  using F = Vec<float>;
  static constexpr Parts kCoefficients[] = {
      {{-0.0336678997F, 0.00384044764F, 0.0157984979F, -0.00473300321F, -0.00346522825F,
        0.000521458685F, 0.00039259452F, 0.0026548258F}},
      {{0.0F, -0.0496758372F, 0.0057105422F, 0.0169237889F, -0.00215469976F, 0.000865616952F,
        0.00215498963F, -0.00151700503F}},
      {{0.113517053F, 0.007442703F, -0.0692606568F, -0.0148580465F, 0.0130974557F, 0.00611751899F,
        0.00101645594F, -0.000144525111F}},
      {{0.0F, 0.183116436F, 0.0690465868F, -0.0443887487F, -0.0341869444F, -0.00896656234F,
        -0.00131851272F, 0.000110822533F}},
      {{-0.3761428F, -0.146465689F, 0.138371184F, 0.13875185F, 0.0482227392F, 0.00835010316F,
        0.000789101701F, 4.59781331e-05F}},
      {{0.0F, -0.439392805F, -0.415103912F, -0.178400263F, -0.0413401797F, -0.00543758087F,
        -0.000411262736F, -2.46375421e-05F}},
      {{1.12837923F, 0.87878257F, 0.415107489F, 0.118930288F, 0.0206669867F, 0.00217828411F,
        0.000139253054F, 5.40124302e-06F}},
      {{0.0F, 0.520499885F, 0.842700779F, 0.966105163F, 0.995322287F, 0.999593019F, 0.999977887F,
        0.999999285F}},
  };
  const F size = lesser(F(3.93F), abs(x));
  const F part = lesser(F(kUnitsLast + 7), fma(size, F(2.0F), F(kUnitsLast)));
  const F distance = fma(part - F(kUnitsLast), F(-0.5F), size);
  return signed_as(polynomial(distance, kCoefficients, bits_of(part)), x);
}

}  // inline namespace
}  // namespace mica::simd
