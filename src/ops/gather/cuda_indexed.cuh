#pragma once

#include "mica/ops/gather/cuda_indexed.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/cuda/fault.cuh"

namespace mica::cuda {

inline constexpr int kIndexThreads = 256;

/// The index at `at`, whatever its dtype.
__device__ inline int64_t load_index(const void* data, DType dtype, int64_t at) {
  switch (dtype) {
    case DType::i64:
      return static_cast<const int64_t*>(data)[at];
    case DType::i32:
      return static_cast<const int32_t*>(data)[at];
    case DType::i16:
      return static_cast<const int16_t*>(data)[at];
    case DType::i8:
      return static_cast<const int8_t*>(data)[at];
    case DType::u64: {  // what lies past int64 is outside of every axis
      const uint64_t index = static_cast<const uint64_t*>(data)[at];
      return index > static_cast<uint64_t>(INT64_MAX) ? INT64_MIN : static_cast<int64_t>(index);
    }
    case DType::u32:
      return static_cast<const uint32_t*>(data)[at];
    case DType::u16:
      return static_cast<const uint16_t*>(data)[at];
    default:
      return static_cast<const uint8_t*>(data)[at];
  }
}

/// The place of an index along its axis; -1 where it lies outside, noted unless `fault` is null.
__device__ inline int64_t place_of(const TableAxis& a, int64_t index, Fault* fault) {
  const int64_t place = index + (a.wrap && index < 0 ? a.size : 0);
  if (place >= 0 && place < a.size) return place;
  if (fault) note_fault(fault, {.index = index, .axis = a.axis, .size = a.size, .op = a.op});
  return -1;
}

__device__ inline int64_t IndexReader::offset(int64_t at) const {
  const int64_t place = place_of(axis, load_index(data, dtype, at), fault);
  return place < 0 || place == skipped ? -1 : place * scale;
}

}  // namespace mica::cuda
