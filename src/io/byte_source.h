#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace mica::io {

/// A file, or bytes in its place, that readers of large formats take pieces of.
struct ByteSource {
  std::string name;  ///< in errors
  uint64_t size;
  /// Fills `to` with the bytes from `at` on, all of which there are.
  std::function<void(std::span<std::byte> to, uint64_t at)> read;
};

}  // namespace mica::io
