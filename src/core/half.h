#pragma once

#include <bit>
#include <cstdint>

namespace mica {

/// IEEE binary16, held as bits; arithmetic happens in float.
struct Half {
  uint16_t bits = 0;

  Half() = default;
  Half(float value) : bits(from_float(value)) {}     // NOLINT(google-explicit-constructor)
  operator float() const { return to_float(bits); }  // NOLINT(google-explicit-constructor)

  static uint16_t from_float(float value) {
    const auto h = static_cast<_Float16>(value);
    return std::bit_cast<uint16_t>(h);
  }
  static float to_float(uint16_t bits) { return static_cast<float>(std::bit_cast<_Float16>(bits)); }
};

/// The upper half of a float, rounded to nearest even.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  BFloat16(float value) : bits(from_float(value)) {}  // NOLINT(google-explicit-constructor)
  operator float() const {                            // NOLINT(google-explicit-constructor)
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }

  static uint16_t from_float(float value) {
    const auto u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7fffffffU) > 0x7f800000U) return static_cast<uint16_t>((u >> 16) | 0x40U);
    return static_cast<uint16_t>((u + 0x7fffU + ((u >> 16) & 1U)) >> 16);
  }
};

}  // namespace mica
