#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace mica {

/// Where mica keeps what it found out or made between runs: the directory MICA_CACHE, else
/// $XDG_CACHE_HOME/mica or ~/.cache/mica. Empty, and nothing is kept, where MICA_CACHE is set to
/// nothing.
std::filesystem::path cache_directory();

/// FNV-1a, as 16 digits: text that was cut or mixed with other text does not have it.
std::string checksum(std::string_view text);

// Files of bytes. `key` names everything the bytes depend on. Whatever is wrong with a file, it is
// as if it were not there; any number of processes may write one at once.

/// What was kept in the file `name` for `key`.
std::optional<std::string> read_cached(const std::string& name, const std::string& key);
void write_cached(const std::string& name, const std::string& key, const std::string& bytes);

}  // namespace mica
