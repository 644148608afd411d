#pragma once

#include "mica/core/device.h"
#include "mica/core/dims.h"
#include "mica/core/dtype.h"

namespace mica {

/// Everything about a tensor but its memory. Kernels are chosen and prepared from specs alone.
struct TensorSpec {
  Shape shape;
  Strides strides;  ///< in elements
  Device device;
  DType dtype = DType::f32;
  bool defined = false;  ///< false for an optional input that was left out
  bool aligned = true;   ///< the first element lies on a 16-byte boundary

  static TensorSpec contiguous(const Shape& shape, DType dtype, Device device = {});

  int rank() const { return shape.rank(); }
  int64_t numel() const { return mica::numel(shape); }
  /// Row-major without gaps; sizes of 1 may have any stride.
  bool is_contiguous() const;
  /// (N, C, H, W) stored as (N, H, W, C) without gaps, and not also row-major.
  bool is_channels_last() const;
  /// Has the strides of a dense (N, H, W, C) tensor, also where that is row-major too.
  bool is_channels_last_dense() const;
  /// Both are dense with their elements in one order; strides of sizes of 1 do not matter.
  bool lies_like(const TensorSpec& other) const {
    return (is_contiguous() && other.is_contiguous()) ||
           (is_channels_last_dense() && other.is_channels_last_dense());
  }
  bool operator==(const TensorSpec&) const = default;
};

/// "f32[2, 3]" with strides and device where they are not the ordinary ones.
std::string to_string(const TensorSpec& spec);

}  // namespace mica
