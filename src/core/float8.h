#pragma once

#include <cstdint>
#include <cstring>

#include "mica/runtime/portable.h"

namespace mica {

/// Eight bits that hold a float: a sign, an exponent and `Mantissa` bits. Values are rounded to
/// nearest even; one too large becomes infinity where the format has it, else NaN.
template <int Mantissa, bool HasInfinity>
struct Float8 {
  uint8_t bits = 0;

  Float8() = default;
  MICA_PORTABLE Float8(float value)  // NOLINT(google-explicit-constructor)
      : bits(from_float(value)) {}
  MICA_PORTABLE operator float() const {  // NOLINT(google-explicit-constructor)
    return to_float(bits);
  }

  MICA_PORTABLE static uint8_t from_float(float value) {
    const uint32_t u = word_of(value);
    const uint32_t sign = u >> 24 & 0x80U;
    uint32_t size = u & 0x7fffffffU;
    if (size > 0x7f800000U) return static_cast<uint8_t>(sign | 0x7fU);
    if (size < static_cast<uint32_t>(128 - kBias) << 23) {
      // Below the smallest normal number: whole steps. 2^23 has no room for parts of one.
      const float steps = float_of(size) * power_of_2(kBias - 1 + Mantissa);
      return static_cast<uint8_t>(sign | static_cast<uint32_t>((steps + 0x1p23F) - 0x1p23F));
    }
    size -= static_cast<uint32_t>(127 - kBias) << 23;
    size = (size + (1U << (kDropped - 1)) - 1 + (size >> kDropped & 1U)) >> kDropped;
    constexpr uint32_t kTooLarge = HasInfinity ? 0x7fU & (0x7fU << Mantissa) : 0x7fU;
    return static_cast<uint8_t>(sign | (size < kTooLarge ? size : kTooLarge));
  }

  MICA_PORTABLE static float to_float(uint8_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x80U) << 24;
    const uint32_t size = bits & 0x7fU;
    constexpr uint32_t kLargestExponent = 0x7fU >> Mantissa;
    if (HasInfinity ? size >> Mantissa == kLargestExponent : size == 0x7fU)
      return float_of(sign | 0x7f800000U | (size & ((1U << Mantissa) - 1)) << kDropped);
    if (size >> Mantissa == 0) {
      const float value = static_cast<float>(size) * power_of_2(1 - kBias - Mantissa);
      return float_of(word_of(value) | sign);
    }
    return float_of(sign | ((size << kDropped) + (static_cast<uint32_t>(127 - kBias) << 23)));
  }

 private:
  static constexpr int kDropped = 23 - Mantissa;
  static constexpr int kBias = (1 << (6 - Mantissa)) - 1;

  MICA_PORTABLE static uint32_t word_of(float x) {
    uint32_t u;
    std::memcpy(&u, &x, sizeof u);
    return u;
  }
  MICA_PORTABLE static float float_of(uint32_t u) {
    float x;
    std::memcpy(&x, &u, sizeof x);
    return x;
  }
  MICA_PORTABLE static float power_of_2(int exponent) {
    return float_of(static_cast<uint32_t>(127 + exponent) << 23);
  }
};

/// Up to 448; no infinity.
using Float8E4M3 = Float8<3, false>;
/// Up to 57344, with infinity.
using Float8E5M2 = Float8<2, true>;

}  // namespace mica
