#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace mica {

/// Where mica keeps what it found out or made between runs: the directory MICA_CACHE, else
/// $XDG_CACHE_HOME/mica or ~/.cache/mica. Empty, and nothing is kept, where MICA_CACHE is set to
/// nothing.
std::filesystem::path cache_directory();

/// SHA-256: text that was cut, mixed with other text or made to resemble it does not have it.
std::string checksum(std::string_view text);

// Files of the cache, some of which are run as code. They are taken from this user alone: the
// directory, made with mode 0700, and each file must belong to the user and be writable by nobody
// else, and links, pipes and devices are not followed or opened. Whatever is wrong with a file, it
// is as if it were not there; any number of processes may write one at once.

/// A file's text.
std::optional<std::string> read_cache_file(const std::string& name);
/// Adds a text to its end, in one write.
void append_to_cache_file(const std::string& name, const std::string& text);

/// What was kept in the file `name` for `key`, which names everything the bytes depend on.
std::optional<std::string> read_cached(const std::string& name, const std::string& key);
void write_cached(const std::string& name, const std::string& key, const std::string& bytes);

}  // namespace mica
