#include "mica/io/zip.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "mica/core/check.h"
#include "mica/io/limits.h"

namespace mica::io {
namespace {

// The numbers of the format's description (APPNOTE.TXT), little-endian.
constexpr uint32_t kEndMagic = 0x06054b50;
constexpr uint32_t kEnd64LocatorMagic = 0x07064b50;
constexpr uint32_t kEnd64Magic = 0x06064b50;
constexpr uint32_t kCentralMagic = 0x02014b50;
constexpr uint32_t kLocalMagic = 0x04034b50;
constexpr uint64_t kEndBytes = 22;
constexpr uint64_t kEnd64LocatorBytes = 20;
constexpr uint64_t kEnd64Bytes = 56;
constexpr uint64_t kCentralBytes = 46;
constexpr uint64_t kLocalBytes = 30;
constexpr uint64_t kLongestComment = 65535;
constexpr uint16_t kZip64Field = 1;

using Bytes = std::vector<std::byte>;

template <class T>
T number_at(std::span<const std::byte> bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

Bytes piece(const ByteSource& source, uint64_t at, uint64_t size, const char* what) {
  check<IoError>(at <= source.size && size <= source.size - at,
                 "{}: {} would lie from byte {} to {}, but the file has {}", source.name, what, at,
                 at + size, source.size);
  Bytes bytes(size);
  source.read(bytes, at);
  return bytes;
}

/// Where the directory is and how many bytes and files it has.
struct Directory {
  uint64_t begin, size, files;
};

Directory find_directory(const ByteSource& source) {
  const uint64_t tail = std::min(source.size, kEndBytes + kLongestComment);
  const Bytes bytes = piece(source, source.size - tail, tail, "the end of the archive");
  check<IoError>(tail >= kEndBytes, "{}: expected a zip archive, got {} bytes", source.name, tail);
  for (uint64_t at = tail - kEndBytes + 1; at-- > 0;) {
    if (number_at<uint32_t>(bytes, at) != kEndMagic) continue;
    const Directory found = {number_at<uint32_t>(bytes, at + 16),
                             number_at<uint32_t>(bytes, at + 12),
                             number_at<uint16_t>(bytes, at + 10)};
    const uint64_t end = source.size - tail + at;
    if (end < kEnd64LocatorBytes) return found;
    const Bytes locator = piece(source, end - kEnd64LocatorBytes, kEnd64LocatorBytes, "a locator");
    if (number_at<uint32_t>(locator, 0) != kEnd64LocatorMagic) return found;
    const Bytes wide = piece(source, number_at<uint64_t>(locator, 8), kEnd64Bytes,
                             "the end record of an archive of 64 bits");
    check<IoError>(number_at<uint32_t>(wide, 0) == kEnd64Magic,
                   "{}: the end record of the archive is not where its locator says", source.name);
    return {number_at<uint64_t>(wide, 48), number_at<uint64_t>(wide, 40),
            number_at<uint64_t>(wide, 32)};
  }
  fail<IoError>("{}: the zip archive has no end: it was cut off", source.name);
}

/// Sizes and places that do not fit into 32 bits stand in an extra field.
void read_wide(std::span<const std::byte> extra, uint64_t* const (&wanted)[3]) {
  size_t at = 0;
  while (at + 4 <= extra.size()) {
    const auto id = number_at<uint16_t>(extra, at);
    const size_t size = number_at<uint16_t>(extra, at + 2);
    at += 4;
    if (size > extra.size() - at) return;
    if (id == kZip64Field) {
      size_t inside = at;
      for (uint64_t* value : wanted) {
        if (*value != UINT32_MAX || inside + 8 > at + size) continue;
        *value = number_at<uint64_t>(extra, inside);
        inside += 8;
      }
    }
    at += size;
  }
}

}  // namespace

std::map<std::string, ZipEntry> zip_entries(const ByteSource& source) {
  const Directory directory = find_directory(source);
  constexpr uint64_t kBytesPerByte = 4;  // of memory
  check<IoError>(directory.size <= read_budget() / kBytesPerByte,
                 "{}: the archive's directory has {} bytes{}", source.name, directory.size,
                 budget_note());
  const Bytes bytes = piece(source, directory.begin, directory.size, "the archive's directory");
  std::map<std::string, ZipEntry> entries;
  uint64_t at = 0;
  for (uint64_t i = 0; i < directory.files; ++i) {
    check<IoError>(
        bytes.size() - at >= kCentralBytes && number_at<uint32_t>(bytes, at) == kCentralMagic,
        "{}: the archive's directory ends before its file {}", source.name, i);
    const uint64_t names = number_at<uint16_t>(bytes, at + 28);
    const uint64_t extras = number_at<uint16_t>(bytes, at + 30);
    const uint64_t comment = number_at<uint16_t>(bytes, at + 32);
    const uint64_t next = at + kCentralBytes + names + extras + comment;
    check<IoError>(next <= bytes.size(), "{}: file {} reaches past the archive's directory",
                   source.name, i);
    const std::string name(reinterpret_cast<const char*>(bytes.data()) + at + kCentralBytes, names);
    uint64_t packed = number_at<uint32_t>(bytes, at + 20);
    uint64_t size = number_at<uint32_t>(bytes, at + 24);
    uint64_t header = number_at<uint32_t>(bytes, at + 42);
    read_wide(std::span(bytes).subspan(at + kCentralBytes + names, extras),
              {&size, &packed, &header});
    const auto flags = number_at<uint16_t>(bytes, at + 8);
    const auto method = number_at<uint16_t>(bytes, at + 10);
    check<Unsupported>(method == 0 && (flags & 1) == 0,
                       "{}: '{}' is packed or encrypted; expected files that are stored as they "
                       "are",
                       source.name, name);
    check<IoError>(packed == size, "{}: '{}' is stored, but has sizes {} and {}", source.name, name,
                   packed, size);
    const Bytes local = piece(source, header, kLocalBytes, "the header of a file");
    check<IoError>(number_at<uint32_t>(local, 0) == kLocalMagic,
                   "{}: '{}' is not where the archive's directory says", source.name, name);
    const uint64_t begin =
        header + kLocalBytes + number_at<uint16_t>(local, 26) + number_at<uint16_t>(local, 28);
    check<IoError>(begin <= source.size && size <= source.size - begin,
                   "{}: '{}' has {} bytes from byte {} on, but the archive has {}", source.name,
                   name, size, begin, source.size);
    check<IoError>(entries.emplace(name, ZipEntry{begin, size}).second,
                   "{}: '{}' is in the archive twice", source.name, name);
    at = next;
  }
  return entries;
}

}  // namespace mica::io
