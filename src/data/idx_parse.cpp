#include "mica/data/idx_parse.h"

#define ZLIB_CONST  // it only reads its input
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "mica/core/check.h"
#include "mica/io/limits.h"

namespace mica::data {
namespace {

bool is_gzip(std::span<const unsigned char> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

/// A file's bytes in order, unpacked where they are gzip's.
class Source {
 public:
  Source(io::ByteSpan bytes, const std::string& path)
      : path_(path), bytes_(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()) {
    packed_ = is_gzip(bytes_);
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

  /// No more bytes than this can come from the file in all.
  uint64_t most_bytes() const { return bytes_.size() * (packed_ ? io::kDeflateRatio : 1); }
  /// And this many are allowed to.
  uint64_t allowed_bytes() const {
    return packed_ ? io::most_unpacked(bytes_.size()) : bytes_.size();
  }

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
  std::span<const unsigned char> bytes_;
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

const Element* element_of(unsigned char code) {
  const auto* element = std::ranges::find(kElements, code, &Element::code);
  return element == kElements.end() ? nullptr : element;
}

/// The four bytes that an IDX file begins with.
void check_magic(std::span<const unsigned char, 4> magic, const std::string& name) {
  check<IoError>(magic[0] == 0 && magic[1] == 0,
                 "{}: expected an IDX file (00 00), got {:02x} {:02x} {:02x} {:02x}", name,
                 magic[0], magic[1], magic[2], magic[3]);
  check<IoError>(element_of(magic[2]),
                 "{}: expected element type 08 (u8), 0c (i32), 0d (f32) or 0e (f64), got {:02x}",
                 name, magic[2]);
  check<IoError>(magic[3] >= 1 && magic[3] <= Dims::kMaxRank,
                 "{}: expected 1 to {} dimensions, got {}", name, Dims::kMaxRank, magic[3]);
}

struct Header {
  DType dtype;
  Shape shape;
  uint64_t bytes;  ///< of the elements
};

Header read_header(Source& source, const std::string& name) {
  std::array<unsigned char, 4> magic{};
  source.read(magic.data(), magic.size(), "magic number");
  check_magic(magic, name);
  const Element* element = element_of(magic[2]);
  const int rank = magic[3];
  const size_t size = size_of(element->dtype);
  const uint64_t most = source.most_bytes() / size;
  constexpr uint64_t kMostStride = uint64_t{1} << 56;  // of dimensions beside one of none
  Shape shape;
  uint64_t elements = 1;
  uint64_t stride = 1;
  for (int i = 0; i < rank; ++i) {
    std::array<unsigned char, 4> b{};
    source.read(b.data(), b.size(), "dimensions");
    const uint64_t dim = uint64_t{b[0]} << 24 | uint64_t{b[1]} << 16 | uint64_t{b[2]} << 8 | b[3];
    shape.push_back(static_cast<int64_t>(dim));
    const uint64_t factor = std::max<uint64_t>(dim, 1);
    check<IoError>(elements <= most / factor && stride <= kMostStride / factor,
                   "{}: truncated: dimensions {}… need more than the {} elements the file can hold",
                   name, shape, most);
    elements *= dim;
    stride *= factor;
  }
  check<IoError>(elements <= source.allowed_bytes() / size,
                 "{}: dimensions {} are {} bytes, more than the {} that gzip may make of this "
                 "file; unpack it first if it is to be trusted{}",
                 name, shape, elements * size, source.allowed_bytes(), io::budget_note());
  return {element->dtype, shape, elements * size};
}

}  // namespace

void check_idx(io::ByteSpan first, const std::string& name) {
  const std::span bytes(reinterpret_cast<const unsigned char*>(first.data()), first.size());
  if (bytes.size() >= 4 && !is_gzip(bytes) && !name.ends_with(".gz"))
    check_magic(bytes.first<4>(), name);
}

void parse_idx(io::ByteSpan bytes, const std::string& name, const IdxTarget& target) {
  Source source(bytes, name);
  const Header header = read_header(source, name);
  std::byte* to = target(header.dtype, header.shape);
  source.read(to, header.bytes, "elements");
  source.expect_end();
  const size_t size = size_of(header.dtype);
  reverse_bytes(to, static_cast<int64_t>(header.bytes / size), size);
}

}  // namespace mica::data
