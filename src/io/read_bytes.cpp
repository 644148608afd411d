#include "mica/io/read_bytes.h"

#include <filesystem>
#include <fstream>

#include "mica/core/check.h"

namespace mica::io {

std::vector<std::byte> read_bytes(const std::string& path) {
  std::error_code error;
  check<IoError>(std::filesystem::exists(path, error), "{}: no such file", path);
  check<IoError>(std::filesystem::is_regular_file(path, error), "{}: not a regular file", path);
  std::ifstream file(path, std::ios::binary);
  check<IoError>(file.good(), "{}: cannot be opened", path);
  const uint64_t size = std::filesystem::file_size(path, error);
  check<IoError>(!error, "{}: {}", path, error.message());
  std::vector<std::byte> bytes(size);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(size));
  check<IoError>(file.gcount() == static_cast<std::streamsize>(size),
                 "{}: expected {} bytes, could read {}", path, size, file.gcount());
  return bytes;
}

}  // namespace mica::io
