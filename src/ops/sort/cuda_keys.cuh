#pragma once

#include "mica/core/spec.h"
#include "mica/op/kernel.h"
#include "mica/runtime/cuda/strided.cuh"

// Elements of any dtype as unsigned numbers in the order of the values, as in keys.h, with the
// dtype known at run time: sorting costs more than this does, and compiles longer.
namespace mica::cuda {

struct SortKeys {
  int bits = 32;
  bool floating = false;
  bool has_sign = false;
  bool descending = false;
  uint64_t infinity = 0;  ///< bits of it

  static SortKeys of(DType t, bool descending) {
    SortKeys keys{.bits = 8 * static_cast<int>(size_of(t)),
                  .floating = is_floating(t),
                  .has_sign = info_of(t).kind == DTypeKind::signed_integer,
                  .descending = descending};
    if (t == DType::f64) keys.infinity = 0x7ff0000000000000ULL;
    if (t == DType::f32) keys.infinity = 0x7f800000U;
    if (t == DType::f16) keys.infinity = 0x7c00U;
    if (t == DType::bf16) keys.infinity = 0x7f80U;
    return keys;
  }

  __host__ __device__ uint64_t mask() const { return ~uint64_t{0} >> (64 - bits); }
  __device__ uint64_t nan() const { return descending ? 0 : mask(); }

  /// Element i. Both zeros have one key, and all NaNs, which go after everything else.
  __device__ uint64_t operator()(const void* data, int64_t i) const {
    const uint64_t raw = read(data, i);
    const uint64_t sign = uint64_t{1} << (bits - 1);
    uint64_t key = raw;
    if (floating) {
      const uint64_t size = raw & ~sign;
      key = (raw & sign) != 0 ? ~raw & mask() : raw | sign;
      if (size == 0) key = sign;
      if (size > infinity) key = mask();
    } else if (has_sign) {
      key = raw ^ sign;
    }
    return descending ? ~key & mask() : key;
  }
  /// Moves element i of one array to element j of another.
  __device__ void copy(const void* from, int64_t i, void* to, int64_t j) const {
    switch (bits) {
      case 64:
        static_cast<uint64_t*>(to)[j] = static_cast<const uint64_t*>(from)[i];
        break;
      case 32:
        static_cast<uint32_t*>(to)[j] = static_cast<const uint32_t*>(from)[i];
        break;
      case 16:
        static_cast<uint16_t*>(to)[j] = static_cast<const uint16_t*>(from)[i];
        break;
      default:
        static_cast<uint8_t*>(to)[j] = static_cast<const uint8_t*>(from)[i];
    }
  }

 private:
  __device__ uint64_t read(const void* data, int64_t i) const {
    switch (bits) {
      case 64:
        return static_cast<const uint64_t*>(data)[i];
      case 32:
        return static_cast<const uint32_t*>(data)[i];
      case 16:
        return static_cast<const uint16_t*>(data)[i];
      default:
        return static_cast<const uint8_t*>(data)[i];
    }
  }
};

/// The rows of an input along an axis, of which the first k in order go to a row-major output.
struct SortRows {
  StridedLoop<2> rest;  ///< the other axes; operands out, in
  int64_t length = 0;
  int64_t k = 0;
  int64_t in_step = 1;
  int64_t out_step = 1;

  SortRows() = default;
  SortRows(const Specs& s, int axis)
      : length(s.in[0].shape[axis]),
        k(s.out[0].shape[axis]),
        in_step(s.in[0].strides[axis]),
        out_step(s.out[0].strides[axis]) {
    Shape shape;
    Strides out, in;
    for (int d = 0; d < s.in[0].rank(); ++d) {
      if (d == axis) continue;
      shape.push_back(s.in[0].shape[d]);
      out.push_back(s.out[0].strides[d]);
      in.push_back(s.in[0].strides[d]);
    }
    rest = strided_loop<2>(shape, {out, in});
  }
};

/// Rows up to this length are sorted by a block.
constexpr int kBlockSort = 2048;

// cuda.cu
Kernel sort_block_kernel();
Kernel topk_block_kernel();
Kernel topk_selection_kernel();

}  // namespace mica::cuda
