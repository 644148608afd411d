#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace mica::io {

/// What the readers of formats take.
using ByteSpan = std::span<const std::byte>;

/// A regular file's bytes. Raises IoError with the file's name and the reason.
std::vector<std::byte> read_bytes(const std::string& path);

}  // namespace mica::io
