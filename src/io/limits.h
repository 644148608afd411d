#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace mica::io {

/// The one budget of all readers: bytes of memory that reading a file may take beyond the file's
/// own, whatever its header claims. 1 GiB, or what MICA_READ_BUDGET says: 500M, 8G.
uint64_t read_budget();
/// For the end of an error: "; MICA_READ_BUDGET allows 1073741824 bytes for what is read".
std::string budget_note();

/// Packed data (gzip, PNG, JPEG) may become this many bytes: a hundred times their own, always up
/// to 64 MiB, and never more than the budget. A reader checks what a header claims against it
/// before it reserves memory, so a small file cannot ask for gigabytes. What a format lets a file
/// hold beside the packed data (comments, other chunks) does not count.
inline uint64_t most_unpacked(uint64_t packed) {
  constexpr uint64_t kAlways = uint64_t{64} << 20;
  constexpr uint64_t kRatio = 100;
  return std::min(std::max(kAlways, packed * kRatio), read_budget());
}

/// Deflate (gzip, PNG) packs no better than this to one.
inline constexpr uint64_t kDeflateRatio = 1032;

}  // namespace mica::io
