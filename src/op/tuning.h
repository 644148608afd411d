#pragma once

#include <optional>
#include <string>

namespace mica {

// What timing found, kept between runs in one file of text: `autotune.txt` in the cache's directory
// (op/disk_cache.h). Where there is none it stays in memory. A file that cannot be read or
// written, or a line that is damaged, is as if it were not there; any number of processes may
// write at once.

/// The answer kept for `key`, which names everything it depends on.
std::optional<std::string> find_tuned(const std::string& key);
/// Keeps an answer; neither text may hold a tab or the end of a line.
void keep_tuned(const std::string& key, const std::string& answer);

}  // namespace mica
