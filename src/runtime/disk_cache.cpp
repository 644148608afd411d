#include "mica/runtime/disk_cache.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "mica/core/check.h"

namespace mica {
namespace {

/// What a file starts with: it says all that must hold of the rest.
std::string head(const std::string& key, const std::string& bytes) {
  return fmt::format("mica cache 1\n{}\n{}\n{}\n", key, bytes.size(), checksum(bytes));
}

}  // namespace

std::filesystem::path cache_directory() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::filesystem::path(value ? value : "");
  };
  if (std::getenv("MICA_CACHE")) return variable("MICA_CACHE");
  if (!variable("XDG_CACHE_HOME").empty()) return variable("XDG_CACHE_HOME") / "mica";
  if (!variable("HOME").empty()) return variable("HOME") / ".cache" / "mica";
  return {};
}

std::string checksum(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325ULL;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return fmt::format("{:016x}", h);
}

std::optional<std::string> read_cached(const std::string& name, const std::string& key) {
  const std::filesystem::path directory = cache_directory();
  if (directory.empty()) return std::nullopt;
  std::ifstream file(directory / name, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream all;
  all << file.rdbuf();
  const std::string text = std::move(all).str();
  // The bytes come last: as many as the head says, if it is the head of those bytes.
  size_t at = 0;
  for (int line = 0; line < 4; ++line) {
    at = text.find('\n', at);
    if (at == std::string::npos) return std::nullopt;
    ++at;
  }
  std::string bytes = text.substr(at);
  if (text.compare(0, at, head(key, bytes)) != 0) return std::nullopt;
  return bytes;
}

void write_cached(const std::string& name, const std::string& key, const std::string& bytes) {
  check(key.find('\n') == std::string::npos, "write_cached: the end of a line in '{}'", key);
  const std::filesystem::path directory = cache_directory();
  if (directory.empty()) return;
  std::error_code ignored;
  const std::filesystem::path path = directory / name;
  std::filesystem::create_directories(path.parent_path(), ignored);
  // Under a name of its own until it is whole: readers see the file before or the file after.
  static std::atomic<int> number{0};
  const std::filesystem::path part =
      fmt::format("{}.{}.{}", path.string(), ::getpid(), number.fetch_add(1));
  std::ofstream file(part, std::ios::binary | std::ios::trunc);
  file << head(key, bytes) << bytes;
  file.close();
  if (file) std::filesystem::rename(part, path, ignored);
  std::filesystem::remove(part, ignored);
}

}  // namespace mica
