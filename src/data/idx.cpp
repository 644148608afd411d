#include "mica/data/idx.h"

#include "mica/data/idx_parse.h"

namespace mica::data {

Tensor read_idx(const std::string& path) {
  Tensor result;
  const auto look = [&](io::ByteSpan first) { check_idx(first, path); };
  parse_idx(io::read_bytes(path, look), path, [&](DType dtype, const Shape& shape) {
    result = empty(shape, {.dtype = dtype});
    return static_cast<std::byte*>(result.data());
  });
  return result;
}

}  // namespace mica::data
