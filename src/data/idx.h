#pragma once

#include <string>

#include "mica/core/tensor.h"

namespace mica::data {

/// Reads an IDX file, the format of MNIST, plain or packed by gzip: elements of type u8, i32, f32
/// or f64 in up to eight dimensions. Whatever is wrong with the file raises IoError with its name,
/// what was expected and what came. Memory is reserved only for what the file can really hold, and
/// gzip may make no more of it than io/limits.h says.
Tensor read_idx(const std::string& path);

}  // namespace mica::data
