#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace mica::io {

/// What the readers of formats take.
using ByteSpan = std::span<const std::byte>;

/// A regular file's bytes. `look`, where it is given, sees the first of them, up to 64, before the
/// rest is read: it raises where they are not those of its format, however large the file is.
/// Raises IoError with the file's name and the reason.
std::vector<std::byte> read_bytes(const std::string& path,
                                  const std::function<void(ByteSpan first)>& look = {});

}  // namespace mica::io
