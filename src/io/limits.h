#pragma once

#include <algorithm>
#include <cstdint>

namespace mica::io {

/// Packed data (gzip, PNG, JPEG) may become this many bytes: a hundred times the file's, and always
/// up to 64 MiB. A reader checks what a header claims against it before it reserves memory, so a
/// small file cannot ask for gigabytes.
constexpr uint64_t most_unpacked(uint64_t packed) {
  constexpr uint64_t kAlways = uint64_t{64} << 20;
  constexpr uint64_t kRatio = 100;
  return std::max(kAlways, packed * kRatio);
}

/// Deflate (gzip, PNG) packs no better than this to one.
inline constexpr uint64_t kDeflateRatio = 1032;

}  // namespace mica::io
