#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include "mica/core/check.h"
#include "mica/op/tuning.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

/// Raised when kernels of ours change so much that earlier times mean nothing.
constexpr int kOwnKernels = 3;

}  // namespace

std::string cuda_tuning_environment(int index) {
  return fmt::format("{} CUDA {} cuBLASLt {} cuDNN {} own {}",
                     runtime(DeviceKind::cuda).properties(index).name, CUDART_VERSION,
                     cublasLtGetVersion(), cudnnGetVersion(), kOwnKernels);
}

}  // namespace mica
