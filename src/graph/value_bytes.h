#pragma once

// Where values of a plan lie, and how much of memory they take.
#include "mica/core/check.h"
#include "mica/graph/graph.h"

namespace mica {

/// Raises OutOfMemory for a value that no memory holds.
inline size_t bytes_of(const TensorSpec& s) {
  size_t bytes = 0;
  check<OutOfMemory>(
      !__builtin_mul_overflow(static_cast<size_t>(s.numel()), size_of(s.dtype), &bytes) &&
          bytes < size_t{1} << 62,
      "compile: out of memory: the graph has a value {}", s);
  return bytes;
}

/// Bytes from the first element of a tensor to the end of its last.
inline size_t extent_bytes(const TensorSpec& s) {
  if (s.numel() == 0) return 0;
  int64_t last = 0;
  for (int i = 0; i < s.rank(); ++i) last += (s.shape[i] - 1) * s.strides[i];
  return static_cast<size_t>(last + 1) * size_of(s.dtype);
}

/// Elements between the start of a value and the start of its root.
inline int64_t offset_in_root(const Graph& g, ValueId id) {
  int64_t elements = 0;
  for (; g[id].base != kNoValue; id = g[id].base) elements += g[id].offset;
  return elements;
}

}  // namespace mica
