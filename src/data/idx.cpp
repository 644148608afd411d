#include "mica/data/idx.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "mica/core/check.h"

namespace mica::data {
namespace {

using Bytes = std::vector<unsigned char>;

Bytes read_file(const std::string& path) {
  std::error_code error;
  check<IoError>(std::filesystem::exists(path, error), "{}: no such file", path);
  check<IoError>(std::filesystem::is_regular_file(path, error), "{}: not a regular file", path);
  std::ifstream file(path, std::ios::binary);
  check<IoError>(file.good(), "{}: cannot be opened", path);
  Bytes bytes(std::filesystem::file_size(path, error));
  check<IoError>(!error, "{}: {}", path, error.message());
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  check<IoError>(file.gcount() == static_cast<std::streamsize>(bytes.size()),
                 "{}: expected {} bytes, could read {}", path, bytes.size(), file.gcount());
  return bytes;
}

/// A file's bytes in order, unpacked where they are gzip's.
class Source {
 public:
  explicit Source(const std::string& path) : path_(path), bytes_(read_file(path)) {
    packed_ = bytes_.size() >= 2 && bytes_[0] == 0x1f && bytes_[1] == 0x8b;
    check<IoError>(packed_ || !path.ends_with(".gz"),
                   "{}: expected a gzip file (1f 8b), got {} bytes that begin otherwise", path,
                   bytes_.size());
    stream_.next_in = bytes_.data();
    if (packed_) {
      constexpr int kGzipOnly = 16 + MAX_WBITS;
      check<IoError>(inflateInit2(&stream_, kGzipOnly) == Z_OK, "{}: zlib failed to start", path);
    }
  }
  ~Source() {
    if (packed_) inflateEnd(&stream_);
  }
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// No more bytes than this can come from the file in all: deflate packs at most 1032 to 1.
  uint64_t most_bytes() const { return packed_ ? bytes_.size() * 1032 : bytes_.size(); }

  void read(void* to, uint64_t count, const char* what) {
    const uint64_t got = take(static_cast<unsigned char*>(to), count);
    check<IoError>(got == count, "{}: truncated: expected {} bytes of {}, got {}", path_, count,
                   what, got);
  }

  void expect_end() {
    unsigned char extra = 0;
    const bool more = take(&extra, 1) == 1;
    check<IoError>(!more && left() == 0,
                   "{}: expected the end of the file after its elements, got {}", path_,
                   more ? "more of them" : fmt::format("{} trailing bytes", left()));
    // The checksum comes after the last element.
    check<IoError>(!packed_ || ended_, "{}: truncated: the gzip stream has no end", path_);
  }

 private:
  uint64_t left() const {
    return static_cast<uint64_t>(bytes_.data() + bytes_.size() - stream_.next_in);
  }

  /// Up to `count` bytes; fewer only at the end.
  uint64_t take(unsigned char* to, uint64_t count) {
    if (!packed_) {
      const uint64_t n = std::min(count, left());
      std::copy_n(stream_.next_in, n, to);
      stream_.next_in += n;
      return n;
    }
    constexpr uint64_t kMost = std::numeric_limits<uInt>::max();
    uint64_t done = 0;
    while (done < count && !ended_) {
      const auto room = static_cast<uInt>(std::min(count - done, kMost));
      stream_.next_out = to + done;
      stream_.avail_out = room;
      stream_.avail_in = static_cast<uInt>(std::min(left(), kMost));
      const int status = inflate(&stream_, Z_NO_FLUSH);
      done += room - stream_.avail_out;
      ended_ = status == Z_STREAM_END;
      if (status == Z_BUF_ERROR || (status == Z_OK && left() == 0 && stream_.avail_out > 0)) break;
      check<IoError>(status == Z_OK || ended_, "{}: damaged gzip data: {}", path_,
                     stream_.msg ? stream_.msg : "zlib gives no reason");
    }
    return done;
  }

  std::string path_;
  Bytes bytes_;
  z_stream stream_{};
  bool packed_ = false;
  bool ended_ = false;  ///< gzip's checksum was read and is right
};

struct Element {
  unsigned char code;
  DType dtype;
};
constexpr std::array<Element, 4> kElements = {
    {{0x08, DType::u8}, {0x0c, DType::i32}, {0x0d, DType::f32}, {0x0e, DType::f64}}};

/// IDX is big-endian.
void reverse_bytes(std::byte* data, int64_t elements, size_t size) {
  if constexpr (std::endian::native == std::endian::big) return;
  if (size == 1) return;
  for (int64_t i = 0; i < elements; ++i, data += size) std::reverse(data, data + size);
}

}  // namespace

Tensor read_idx(const std::string& path) {
  Source source(path);
  std::array<unsigned char, 4> magic{};
  source.read(magic.data(), magic.size(), "magic number");
  check<IoError>(magic[0] == 0 && magic[1] == 0,
                 "{}: expected an IDX file (00 00), got {:02x} {:02x} {:02x} {:02x}", path,
                 magic[0], magic[1], magic[2], magic[3]);
  const auto element = std::find_if(kElements.begin(), kElements.end(),
                                    [&](const Element& e) { return e.code == magic[2]; });
  check<IoError>(element != kElements.end(),
                 "{}: expected element type 08 (u8), 0c (i32), 0d (f32) or 0e (f64), got {:02x}",
                 path, magic[2]);
  const int rank = magic[3];
  check<IoError>(rank >= 1 && rank <= Dims::kMaxRank, "{}: expected 1 to {} dimensions, got {}",
                 path, Dims::kMaxRank, rank);

  const size_t size = size_of(element->dtype);
  const uint64_t most = source.most_bytes() / size;
  Shape shape;
  uint64_t elements = 1;
  for (int i = 0; i < rank; ++i) {
    std::array<unsigned char, 4> b{};
    source.read(b.data(), b.size(), "dimensions");
    const uint64_t dim = uint64_t{b[0]} << 24 | uint64_t{b[1]} << 16 | uint64_t{b[2]} << 8 | b[3];
    shape.push_back(static_cast<int64_t>(dim));
    check<IoError>(dim == 0 || elements <= most / dim,
                   "{}: truncated: dimensions {}… need more than the {} elements the file can hold",
                   path, shape, most);
    elements *= dim;
  }

  Tensor result = empty(shape, {.dtype = element->dtype});
  source.read(result.data(), elements * size, "elements");
  source.expect_end();
  reverse_bytes(static_cast<std::byte*>(result.data()), result.numel(), size);
  return result;
}

}  // namespace mica::data
