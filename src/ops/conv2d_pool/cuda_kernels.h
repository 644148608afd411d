#pragma once

#include <algorithm>

#include "mica/op/kernel.h"
#include "mica/ops/conv2d/geometry.h"

namespace mica {

/// A convolution alone is taken only as it lies: to copy its operands first would cost more than is
/// gained.
inline bool is_row_major(const Specs& specs) {
  return std::all_of(specs.in.begin(), specs.in.end(),
                     [](const TensorSpec& s) { return !s.defined || s.is_contiguous(); });
}

/// More weights or pixels than this keep the library's tiles busy.
inline bool large_enough_for_the_library(const Conv2dGeometry& g) {
  constexpr int64_t kMostWeights = 32 * 1024;
  constexpr int64_t kMostPixels = 64 * 64;
  return g.window() * g.o > kMostWeights || g.h * g.w > kMostPixels || g.pixels() > kMostPixels;
}

/// By tensor cores, with every operand in shared memory; f32 where TF32 is allowed.
Kernel conv2d_implicit_gemm_kernel();
Kernel conv2d_act_implicit_gemm_kernel();
Kernel conv2d_pool_implicit_gemm_kernel();
Kernel conv2d_pool_dgrad_implicit_gemm_kernel();
Kernel conv2d_dgrad_implicit_gemm_kernel();
Kernel conv2d_pool_wgrad_implicit_gemm_kernel();

}  // namespace mica
