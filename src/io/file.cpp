#include "mica/io/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "mica/core/check.h"

namespace mica::io {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_with(const std::string& path, const char* what, int reason) {
  fail<IoError>("{}: {}: {}", path, what, std::generic_category().message(reason));
}

struct stat status_of(int descriptor, const std::string& path) {
  struct stat status{};
  if (fstat(descriptor, &status) != 0) fail_with(path, "cannot be examined", errno);
  return status;
}

/// Temporary files of `path` are named .NAME.tmp-XXXXXXXX and locked by the process that writes
/// them, so that one without a lock is known to be left over.
class Temporary {
 public:
  explicit Temporary(const fs::path& target)
      : directory_(target.has_parent_path() ? target.parent_path() : "."),
        prefix_(fmt::format(".{}.tmp-", target.filename().string())),
        target_(target),
        file_(create()) {}
  ~Temporary() {
    if (!name_.empty()) unlink(name_.c_str());
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  File& file() { return file_; }

  void replace_target() {
    file_.sync();
    if (rename(name_.c_str(), target_.c_str()) != 0)
      fail_with(target_, "cannot be replaced", errno);
    name_.clear();
    File directory(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC), directory_);
    directory.sync();
  }

 private:
  File create() {
    remove_left_over();
    std::random_device random;
    while (true) {
      name_ = directory_ / fmt::format("{}{:08x}", prefix_, random());
      const int descriptor = ::open(name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (descriptor < 0 && errno == EEXIST) continue;
      if (descriptor < 0) {
        const int reason = errno;
        name_.clear();
        fail_with(target_, "cannot be written: no temporary file beside it", reason);
      }
      File file(descriptor, target_);
      // Another process that cleans up may have come between; then this one is gone.
      if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 && status_of(descriptor, name_).st_nlink > 0)
        return file;
    }
  }

  void remove_left_over() const {
    std::error_code error;  // what cannot be listed or removed stays
    for (fs::directory_iterator i(directory_, error), end; !error && i != end; i.increment(error)) {
      if (!i->path().filename().string().starts_with(prefix_)) continue;
      const int descriptor = ::open(i->path().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
      if (descriptor < 0) continue;
      const File file(descriptor, i->path());
      if (flock(descriptor, LOCK_EX | LOCK_NB) == 0) unlink(i->path().c_str());
    }
  }

  fs::path directory_;
  std::string prefix_;
  fs::path target_;
  fs::path name_;  ///< empty when there is nothing to remove
  File file_;
};

}  // namespace

File::File(int descriptor, std::string path) : descriptor_(descriptor), path_(std::move(path)) {
  if (descriptor < 0) fail_with(path_, "cannot be opened", errno);
}

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

File::File(File&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  return *this;
}

File File::open(const std::string& path) {
  // Without O_NONBLOCK a pipe without a writer would be waited for.
  File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK), path);
  check<IoError>(S_ISREG(status_of(file.descriptor(), path).st_mode), "{}: not a regular file",
                 path);
  return file;
}

File File::append(const std::string& path) {
  return {::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666), path};
}

void File::read(std::span<std::byte> to, uint64_t at) const {
  while (!to.empty()) {
    const ssize_t count = ::pread(descriptor_, to.data(), to.size(), static_cast<off_t>(at));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_with(path_, "cannot be read", errno);
    check<IoError>(count > 0, "{}: ended at byte {} while it was read", path_, at);
    to = to.subspan(static_cast<size_t>(count));
    at += static_cast<uint64_t>(count);
  }
}

void File::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_with(path_, "cannot be written", errno);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
}

void File::write(std::string_view text) { write(std::as_bytes(std::span(text))); }

void File::sync() {
  // EINVAL: a file system that has no such thing for directories.
  if (fsync(descriptor_) != 0 && errno != EINVAL) fail_with(path_, "cannot be synced", errno);
}

void File::truncate(uint64_t size) {
  if (ftruncate(descriptor_, static_cast<off_t>(size)) != 0)
    fail_with(path_, "cannot be cut", errno);
}

uint64_t File::size() const { return static_cast<uint64_t>(status_of(descriptor_, path_).st_size); }

std::string read_file(const std::string& path) {
  const File file = File::open(path);
  std::string text(file.size(), '\0');
  file.read(std::as_writable_bytes(std::span(text)), 0);
  return text;
}

void write_file_atomically(const std::string& path, const std::function<void(File&)>& write) {
  std::error_code error;
  const fs::file_status old = fs::status(path, error);
  check<IoError>(!fs::exists(old) || fs::is_regular_file(old),
                 "{}: expected a regular file to replace, or none", path);
  Temporary temporary(path);
  write(temporary.file());
  temporary.replace_target();
}

}  // namespace mica::io
