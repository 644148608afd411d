#pragma once

#include <cuda_runtime.h>

#include "mica/runtime/cuda/programmatic_launch.h"

namespace mica {

/// Waits until the launches before this one have ended and their results can be read; the launch
/// after this one may begin, to wait likewise. In a kernel that was launched without
/// ProgrammaticLaunch it comes back at once.
__device__ inline void wait_for_inputs() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
#endif
}

}  // namespace mica
