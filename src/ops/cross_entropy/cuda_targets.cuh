#pragma once

// What the kernels of the loss share.
#include "mica/runtime/cuda/types.cuh"

namespace mica::cuda {

/// Target of a row; i64, i32 or u8.
struct CudaTargets {
  const void* data;
  DType dtype;
  int64_t ignored;

  __device__ int64_t operator[](int64_t i) const {
    if (dtype == DType::i64) return static_cast<const int64_t*>(data)[i];
    if (dtype == DType::i32) return static_cast<const int32_t*>(data)[i];
    return static_cast<const uint8_t*>(data)[i];
  }
};

/// Good to two units in the last place where x is small; the error of large negative x is lost in
/// the sum, or in the result, that they are a small part of.
__device__ inline float exp_of(float x) { return __expf(x); }
__device__ inline double exp_of(double x) { return exp(x); }

}  // namespace mica::cuda
