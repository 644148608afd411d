// IDX files, plain and packed by gzip.
#include <zlib.h>

#include <memory>

#include "mica/data/idx_parse.h"
#include "tests/fuzz/fuzz.h"

namespace mica::fuzz {
namespace {

Bytes idx(unsigned char type, const std::vector<unsigned char>& dims, size_t bytes) {
  Bytes file = {std::byte{0}, std::byte{0}, std::byte{type}, static_cast<std::byte>(dims.size())};
  for (const unsigned char d : dims) {
    file.resize(file.size() + 3);
    file.push_back(std::byte{d});
  }
  for (size_t i = 0; i < bytes; ++i) file.push_back(static_cast<std::byte>(i * 37));
  return file;
}

Bytes gzip(const Bytes& content) {
  z_stream stream{};
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY);
  Bytes packed(deflateBound(&stream, content.size()));
  Bytes copy = content;
  stream.next_in = reinterpret_cast<unsigned char*>(copy.data());
  stream.avail_in = static_cast<uInt>(copy.size());
  stream.next_out = reinterpret_cast<unsigned char*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace

std::vector<Bytes> seeds() {
  std::vector<Bytes> all = {idx(0x08, {2, 3, 4}, 24), idx(0x0c, {5}, 20),   idx(0x0d, {2, 2}, 16),
                            idx(0x0e, {3}, 24),       idx(0x08, {0, 9}, 0), idx(0x08, {200}, 200)};
  for (size_t i = 0, plain = all.size(); i < plain; ++i) all.push_back(gzip(all[i]));
  return all;
}

void read(std::span<const std::byte> bytes) {
  std::unique_ptr<std::byte[]> elements;
  data::parse_idx(bytes, "file", [&](DType dtype, const Shape& shape) {
    size_t count = size_of(dtype);
    for (const int64_t d : shape) count *= static_cast<size_t>(d);
    elements.reset(new std::byte[count]);  // untouched, as a tensor's memory is
    return elements.get();
  });
}

}  // namespace mica::fuzz
