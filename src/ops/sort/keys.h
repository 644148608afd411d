#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "mica/core/dtype_switch.h"
#include "mica/core/switch_bytes.h"

// Unsigned keys whose order is the order of the values.
namespace mica {

/// Whether a goes before b: NaN last. Without branches.
template <class T>
bool goes_before(T a, T b) {
  return (static_cast<int>(a < b) | (static_cast<int>(b != b) & static_cast<int>(a == a))) != 0;
}

/// T is a type of floats or an unsigned integer.
template <class T>
struct SortKey {
  using Bits =
      std::conditional_t<sizeof(T) == 8, uint64_t,
                         std::conditional_t<sizeof(T) == 4, uint32_t,
                                            std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>>>;
  static constexpr int kBits = 8 * sizeof(T);
  static constexpr bool kFloat = !std::is_integral_v<T>;
  static constexpr Bits kSign = static_cast<Bits>(Bits{1} << (kBits - 1));
  static constexpr Bits kNan = static_cast<Bits>(~Bits{0});

  /// Without branches: signs cannot be predicted.
  static Bits of(T value) {
    const auto bits = std::bit_cast<Bits>(value);
    if constexpr (kFloat) {
      const auto size = static_cast<Bits>(bits & static_cast<Bits>(~kSign));
      const Bits key = size == 0 ? kSign : static_cast<Bits>(bits ^ flips(bits));
      return size > kInfinity ? kNan : key;
    } else {
      return bits;
    }
  }
  /// True for keys that several values have: all NaNs, and both zeros.
  static bool shared(Bits key) { return kFloat && (key == kNan || key == kSign); }
  /// The value of any other key.
  static T value(Bits key) {
    if constexpr (kFloat) {
      return std::bit_cast<T>(static_cast<Bits>(key ^ flips(static_cast<Bits>(~key))));
    } else {
      return std::bit_cast<T>(key);
    }
  }

 private:
  /// Bits that change between a float and its key: all of a negative one, else the sign.
  static Bits flips(Bits bits) {
    return static_cast<Bits>(static_cast<Bits>(Bits{0} - static_cast<Bits>(bits >> (kBits - 1))) |
                             kSign);
  }
  /// Bits of infinity: the exponent's.
  static constexpr Bits exponent_mask() {
    if (std::is_same_v<T, double>) return static_cast<Bits>(0x7ff0000000000000ULL);
    if (std::is_same_v<T, float>) return static_cast<Bits>(0x7f800000U);
    return static_cast<Bits>(std::is_same_v<T, BFloat16> ? 0x7f80U : 0x7c00U);
  }
  static constexpr Bits kInfinity = exponent_mask();
};

/// Calls f with the type of a floating dtype, or the unsigned integer of an integer's size: the
/// order of signed ones is that of their bits with the sign flipped.
template <class F>
decltype(auto) switch_sorted(DType t, F&& f) {
  return is_floating(t) ? switch_float(t, "sort", f) : switch_bytes(size_of(t), f);
}

}  // namespace mica
