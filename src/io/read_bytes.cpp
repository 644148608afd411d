#include "mica/io/read_bytes.h"

#include <algorithm>
#include <array>

#include "mica/io/file.h"

namespace mica::io {

std::vector<std::byte> read_bytes(const std::string& path,
                                  const std::function<void(ByteSpan first)>& look) {
  const File file = File::open(path);
  const uint64_t size = file.size();
  if (look) {
    std::array<std::byte, 64> first{};
    const std::span some = std::span(first).first(std::min<uint64_t>(size, first.size()));
    file.read(some, 0);
    look(some);
  }
  std::vector<std::byte> bytes(size);
  file.read(bytes, 0);
  return bytes;
}

}  // namespace mica::io
