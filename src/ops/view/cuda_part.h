#pragma once

#include "mica/op/kernel.h"
#include "mica/runtime/cuda/strided.cuh"

namespace mica::cuda {

/// Writes a tensor of any strides to a part of another, of the same shape and dtype.
struct PartCopy {
  PartCopy(const TensorSpec& part, const TensorSpec& in);
  void run(Encoder& encoder, void* part, const void* in) const;

  StridedLoop<2> loop;  ///< part, in
  size_t element;       ///< its bytes
  bool vectors = false;
};

void clear_memory(Encoder& encoder, void* data, size_t bytes);

}  // namespace mica::cuda
