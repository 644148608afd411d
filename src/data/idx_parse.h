#pragma once

#include <functional>
#include <string>

#include "mica/core/dims.h"
#include "mica/core/dtype.h"
#include "mica/io/read_bytes.h"

namespace mica::data {

/// Gives memory for elements of a dtype and shape.
using IdxTarget = std::function<std::byte*(DType dtype, const Shape& shape)>;

/// Raises where a file's first bytes are neither those of IDX nor of gzip.
void check_idx(io::ByteSpan first, const std::string& name);

/// Reads IDX, plain or packed by gzip, from a file's bytes; `name` is the file's, in errors. Asks
/// for memory once, when the header is known to be one that the bytes can fulfil.
void parse_idx(io::ByteSpan bytes, const std::string& name, const IdxTarget& target);

}  // namespace mica::data
