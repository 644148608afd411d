#include "mica/runtime/disk_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <random>
#include <utility>

#include "mica/core/check.h"
#include "mica/runtime/sha256.h"

namespace mica {
namespace {

namespace fs = std::filesystem;

constexpr mode_t kOwnFile = S_IRUSR | S_IWUSR;
constexpr mode_t kOwnDirectory = S_IRWXU;

/// An open file or directory; -1 for none.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  int get() const { return number_; }
  bool is_open() const { return number_ >= 0; }

 private:
  int number_;
};

/// Whether it is of that kind, belongs to this user, and nobody else may write to it.
bool is_own(const Descriptor& file, mode_t kind) {
  struct stat status{};
  return file.is_open() && fstat(file.get(), &status) == 0 && (status.st_mode & S_IFMT) == kind &&
         status.st_uid == geteuid() && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

Descriptor own_directory(Descriptor directory) {
  return is_own(directory, S_IFDIR) ? std::move(directory) : Descriptor();
}

constexpr int kDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

/// The directory of a file of the cache; where it is missing it is made, if that is wanted.
Descriptor open_directory(const fs::path& name, bool make) {
  const fs::path root = cache_directory();
  if (root.empty()) return Descriptor();
  if (make) {
    std::error_code ignored;
    fs::create_directories(root.parent_path(), ignored);
    mkdir(root.c_str(), kOwnDirectory);
  }
  Descriptor at = own_directory(Descriptor(open(root.c_str(), kDirectory)));
  for (const fs::path& part : name.parent_path()) {
    if (!at.is_open()) break;
    if (make) mkdirat(at.get(), part.c_str(), kOwnDirectory);
    at = own_directory(Descriptor(openat(at.get(), part.c_str(), kDirectory)));
  }
  return at;
}

/// One write: what other processes write at the same time stays whole.
bool write_all(const Descriptor& file, const std::string& text) {
  const ssize_t written = ::write(file.get(), text.data(), text.size());
  return written == static_cast<ssize_t>(text.size());
}

/// What a file starts with: it says all that must hold of the rest.
std::string head(const std::string& key, const std::string& bytes) {
  return fmt::format("mica cache 2\n{}\n{}\n{}\n", key, bytes.size(), checksum(bytes));
}

}  // namespace

fs::path cache_directory() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return fs::path(value ? value : "");
  };
  if (std::getenv("MICA_CACHE")) return variable("MICA_CACHE");
  if (!variable("XDG_CACHE_HOME").empty()) return variable("XDG_CACHE_HOME") / "mica";
  if (!variable("HOME").empty()) return variable("HOME") / ".cache" / "mica";
  return {};
}

std::string checksum(std::string_view text) { return sha256(text); }

std::optional<std::string> read_cache_file(const std::string& name) {
  const fs::path path(name);
  const Descriptor directory = open_directory(path, false);
  if (!directory.is_open()) return std::nullopt;
  // O_NONBLOCK: a pipe would be waited for.
  const Descriptor file(openat(directory.get(), path.filename().c_str(),
                               O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!is_own(file, S_IFREG)) return std::nullopt;
  std::string text;
  for (;;) {
    constexpr size_t kPiece = size_t{1} << 16;
    const size_t size = text.size();
    text.resize(size + kPiece);
    const ssize_t count = ::read(file.get(), text.data() + size, kPiece);
    text.resize(size + static_cast<size_t>(std::max<ssize_t>(count, 0)));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return std::nullopt;
    if (count == 0) return text;
  }
}

void append_to_cache_file(const std::string& name, const std::string& text) {
  const fs::path path(name);
  const Descriptor directory = open_directory(path, true);
  if (!directory.is_open()) return;
  const Descriptor file(openat(directory.get(), path.filename().c_str(),
                               O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                               kOwnFile));
  if (is_own(file, S_IFREG)) write_all(file, text);
}

std::optional<std::string> read_cached(const std::string& name, const std::string& key) {
  const std::optional<std::string> text = read_cache_file(name);
  if (!text) return std::nullopt;
  // The bytes come last: as many as the head says, if it is the head of those bytes.
  size_t at = 0;
  for (int line = 0; line < 4; ++line) {
    at = text->find('\n', at);
    if (at == std::string::npos) return std::nullopt;
    ++at;
  }
  std::string bytes = text->substr(at);
  if (text->compare(0, at, head(key, bytes)) != 0) return std::nullopt;
  return bytes;
}

void write_cached(const std::string& name, const std::string& key, const std::string& bytes) {
  check(key.find('\n') == std::string::npos, "write_cached: the end of a line in '{}'", key);
  const fs::path path(name);
  const Descriptor directory = open_directory(path, true);
  if (!directory.is_open()) return;
  // Under a name that nobody can foresee until it is whole: readers see the file before or the
  // file after.
  std::random_device random;
  const std::string part =
      fmt::format(".{}.{:08x}{:08x}", path.filename().string(), random(), random());
  const Descriptor file(openat(directory.get(), part.c_str(),
                               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kOwnFile));
  if (!file.is_open()) return;
  const bool whole =
      write_all(file, head(key, bytes) + bytes) &&
      renameat(directory.get(), part.c_str(), directory.get(), path.filename().c_str()) == 0;
  if (!whole) unlinkat(directory.get(), part.c_str(), 0);
}

}  // namespace mica
