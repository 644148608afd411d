#pragma once

#include "mica/core/tensor_index.h"

// x[key] as NumPy has it: slices along axes, then one reshape that drops and adds axes of size 1,
// then whatever arrays of indices remain.
namespace mica {

/// Where a key points: a view of the tensor, the axes of it that go backwards, and arrays of
/// indices for its leading axes, undefined where one is not indexed.
struct KeyPlace {
  Tensor view;
  Dims backwards = {};
  Tensors arrays = {};

  bool is_view() const { return backwards.empty() && arrays.empty(); }
  /// The values there.
  Tensor read() const;
  /// Overwrites them, broadcast and cast.
  void write(const Tensor& values) const;
};

/// Raises IndexError for what is out of range, no integer or mask, or too much for the tensor.
KeyPlace locate(const Tensor& x, std::span<const TensorIndex> key);

}  // namespace mica
