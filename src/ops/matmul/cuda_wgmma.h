#pragma once

// What the host does for kernels of ops/matmul/cuda_wgmma.cuh.
#include "mica/core/dtype.h"
#include "mica/ops/matmul/cuda_wgmma.cuh"

namespace mica::wgmma {

/// A matrix: rows of `columns` elements beside each other.
struct Operand {
  const void* data = nullptr;
  DType dtype = DType::f32;
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t pitch = 0;  ///< elements from row to row
};

/// For boxes of `rows` rows of kStageRowBytes; f32 is rounded to TF32 on the way. `op` names who
/// asks.
TensorMap map_of(const char* op, const Operand& operand, int rows);

}  // namespace mica::wgmma
