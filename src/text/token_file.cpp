#include "mica/text/token_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "mica/core/check.h"
#include "mica/core/text.h"
#include "mica/io/file.h"

namespace mica::text {
namespace {

constexpr char kMagic[] = "micatok1";
constexpr size_t kMagicSize = 8;
constexpr int64_t kHeader = 16;

struct Header {
  char magic[kMagicSize];
  uint32_t width;
  uint32_t zero;
};
static_assert(sizeof(Header) == kHeader);

template <class T>
void read_as(const std::byte* from, std::span<int64_t> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    T token;
    std::memcpy(&token, from + i * sizeof(T), sizeof(T));
    to[i] = token;
  }
}

template <class T>
void write_as(io::File& file, std::span<const int64_t> tokens) {
  const std::vector<T> narrow(tokens.begin(), tokens.end());
  file.write(std::as_bytes(std::span(narrow)));
}

}  // namespace

TokenFile TokenFile::open(const std::string& path) {
  const std::string name = printable(path);
  const io::File file = io::File::open(path);
  const auto size = static_cast<int64_t>(file.size());
  Header header = {};
  if (size >= kHeader) file.read(std::as_writable_bytes(std::span(&header, 1)), 0);
  check<IoError>(std::memcmp(header.magic, kMagic, kMagicSize) == 0 && header.zero == 0 &&
                     (header.width == 2 || header.width == 4),
                 "{}: is no file of tokens", name);
  const auto width = static_cast<int64_t>(header.width);
  check<IoError>((size - kHeader) % width == 0, "{}: ends within a token", name);
  const auto length = static_cast<size_t>(size);
  void* mapped = mmap(nullptr, length, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  check<IoError>(mapped != MAP_FAILED, "{}: cannot be mapped into memory: {}", name,
                 std::strerror(errno));
  const std::shared_ptr<const std::byte> whole(
      static_cast<const std::byte*>(mapped),
      [length](const std::byte* p) { munmap(const_cast<std::byte*>(p), length); });
  return {{whole, whole.get() + kHeader}, width, (size - kHeader) / width};
}

void TokenFile::read(int64_t start, std::span<int64_t> to) const {
  const auto count = static_cast<int64_t>(to.size());
  check<IndexError>(start >= 0 && count <= size_ && start <= size_ - count,
                    "text: tokens {} to {} are not among {}", start, start + count, size_);
  const std::byte* from = bytes_.get() + start * width_;
  width_ == 2 ? read_as<uint16_t>(from, to) : read_as<uint32_t>(from, to);
}

Tensor TokenFile::batch(std::span<const int64_t> starts, int64_t length) const {
  check(length >= 0, "text: a length must not be negative, got {}", length);
  const auto rows = static_cast<int64_t>(starts.size());
  std::vector<int64_t> tokens(static_cast<size_t>(rows * length));
  for (size_t i = 0; i < starts.size(); ++i)
    read(starts[i],
         std::span(tokens).subspan(i * static_cast<size_t>(length), static_cast<size_t>(length)));
  return tensor(tokens, {rows, length});
}

void write_token_file(const std::string& path, int64_t vocabulary,
                      const std::function<void(const AppendTokens& append)>& fill) {
  check(vocabulary >= 1 && vocabulary <= int64_t{1} << 31,
        "text: a vocabulary must have 1 to 2^31 tokens, got {}", vocabulary);
  const uint32_t width = vocabulary <= 65536 ? 2 : 4;
  io::write_file_atomically(path, [&](io::File& file) {
    Header header = {{}, width, 0};
    std::memcpy(header.magic, kMagic, kMagicSize);
    file.write(std::as_bytes(std::span(&header, 1)));
    fill([&](std::span<const int64_t> tokens) {
      for (const int64_t token : tokens)
        check<IndexError>(token >= 0 && token < vocabulary, "text: token {} is not in [0, {})",
                          token, vocabulary);
      width == 2 ? write_as<uint16_t>(file, tokens) : write_as<uint32_t>(file, tokens);
    });
  });
}

void write_token_file(const std::string& path, int64_t vocabulary,
                      std::span<const int64_t> tokens) {
  write_token_file(path, vocabulary, [&](const AppendTokens& append) { append(tokens); });
}

}  // namespace mica::text
