#pragma once

#include <cuda_runtime.h>

#include "mica/runtime/cuda/ahead.h"

namespace mica {

/// Waits until the launches before this one have ended and their results can be read. It comes back
/// at once in a kernel that was launched without LaunchAhead.
__device__ inline void wait_for_inputs() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

/// Lets a launch that follows begin once every block has called it or ended.
__device__ inline void let_next_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}

}  // namespace mica
