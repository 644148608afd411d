#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace mica::io {

/// An open file, closed when it goes. Whatever the system refuses raises IoError with the file's
/// name and the system's reason.
class File {
 public:
  /// For reading; the file must be a regular one.
  static File open(const std::string& path);
  /// For writing at its end; made if there is none.
  static File append(const std::string& path);

  /// Takes an open descriptor; errors speak of `path`.
  File(int descriptor, std::string path);
  ~File();
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;

  /// Fills `to` with the bytes from `at` on; an error where the file ends before.
  void read(std::span<std::byte> to, uint64_t at) const;
  /// All of the bytes, or an error.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Returns when the bytes would survive a loss of power.
  void sync();
  void truncate(uint64_t size);
  uint64_t size() const;

  int descriptor() const { return descriptor_; }
  const std::string& path() const { return path_; }

 private:
  int descriptor_;
  std::string path_;
};

std::string read_file(const std::string& path);

/// Replaces the file at `path` by what `write` writes, all or nothing: into a temporary file in the
/// same directory, synced and renamed. A reader, or a machine that lost its power, sees the old
/// file or the new one, whole. When anything fails (a full disk, an exception of `write`) the old
/// file is left as it was and the temporary one is removed. One that a killed process left behind
/// is removed by the next call for the same path.
void write_file_atomically(const std::string& path, const std::function<void(File&)>& write);

}  // namespace mica::io
