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

#if !defined(__clang__) || __clang_major__ >= 15
  static uint16_t from_float(float value) {
    const auto h = static_cast<_Float16>(value);
    return std::bit_cast<uint16_t>(h);
  }
  static float to_float(uint16_t bits) { return static_cast<float>(std::bit_cast<_Float16>(bits)); }
#else
  // Compilers that have no _Float16 on all processors. Rounded to nearest even, as the others do.
  static uint16_t from_float(float value) {
    const auto u = std::bit_cast<uint32_t>(value);
    const uint32_t sign = (u >> 16) & 0x8000U;
    const uint32_t magnitude = u & 0x7fffffffU;
    if (magnitude > 0x7f800000U)
      return static_cast<uint16_t>(sign | 0x7e00U | ((magnitude >> 13) & 0x3ffU));
    if (magnitude >= 0x477ff000U) return static_cast<uint16_t>(sign | 0x7c00U);
    if (magnitude < 0x38800000U) {
      // The sum's last bits are a multiple of the smallest subnormal, rounded by the processor.
      const float sum = std::bit_cast<float>(magnitude) + 0.5F;
      return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(sum) - 0x3f000000U));
    }
    const uint32_t odd = (magnitude >> 13) & 1U;
    return static_cast<uint16_t>(sign | ((magnitude - 0x38000000U + 0xfffU + odd) >> 13));
  }
  static float to_float(uint16_t bits) {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
    const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fffU) << 13;
    if (magnitude >= 0x0f800000U)  // infinities and NaN
      return std::bit_cast<float>(sign | (magnitude + 0x70000000U));
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p112F;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(scaled));
  }
#endif
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
