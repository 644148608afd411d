#pragma once

#include <cstddef>
#include <cstdint>

namespace mica {

/// Calls `f.template operator()<Word>()` with the unsigned type of 1, 2, 4 or 8 bytes: code that
/// treats values as integers is compiled for each size, not for each dtype.
template <class F>
decltype(auto) switch_bytes(size_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f.template operator()<uint8_t>();
    case 2:
      return f.template operator()<uint16_t>();
    case 4:
      return f.template operator()<uint32_t>();
    default:
      return f.template operator()<uint64_t>();
  }
}

/// Sixteen bytes that need not lie on a boundary of sixteen.
struct TwoWords {
  uint64_t low;
  uint64_t high;
};

/// The same with a type of 1, 2, 4, 8 or 16 bytes, for code that only moves values.
template <class F>
decltype(auto) switch_words(size_t bytes, F&& f) {
  if (bytes == sizeof(TwoWords)) return f.template operator()<TwoWords>();
  return switch_bytes(bytes, f);
}

}  // namespace mica
