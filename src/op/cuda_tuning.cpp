#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <map>
#include <mutex>

#include "mica/core/check.h"
#include "mica/op/tuning.h"
#include "mica/runtime/runtime.h"

namespace mica {
namespace {

/// Raised when kernels of ours change so much that earlier times mean nothing.
constexpr int kOwnKernels = 3;

}  // namespace

std::string cuda_tuning_environment(int index) {
  // To ask the driver for a device's name takes longer than to choose a kernel.
  static std::mutex mutex;
  static std::map<int, std::string> known;
  const std::lock_guard lock(mutex);
  std::string& text = known[index];
  if (text.empty())
    text = fmt::format("{} CUDA {} cuBLASLt {} cuDNN {} own {}",
                       runtime(DeviceKind::cuda).properties(index).name, CUDART_VERSION,
                       cublasLtGetVersion(), cudnnGetVersion(), kOwnKernels);
  return text;
}

}  // namespace mica
