#include "mica/runtime/cuda/check.h"

#include <atomic>
#include <mutex>
#include <string_view>

#include "mica/core/check.h"

namespace mica {
namespace {

/// The first error that made the CUDA context unusable.
struct Poison {
  std::atomic<bool> happened{false};
  std::mutex mutex;
  std::string message;
};

Poison& poison() {
  static Poison p;
  return p;
}

/// Errors after which the driver refuses every further call of the process.
bool poisons(cudaError_t code) {
  switch (code) {
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
      return true;
    default:
      return false;
  }
}

std::string at(const CallSite& site) {
  const std::string_view path = site.file_name();
  return fmt::format("{}:{}", path.substr(path.rfind('/') + 1), site.line());
}

}  // namespace

void check_cuda_usable() {
  Poison& p = poison();
  if (!p.happened.load(std::memory_order_acquire)) [[likely]]
    return;
  const std::lock_guard lock(p.mutex);
  fail<DeviceError>(
      "cuda: the CUDA context was lost by an earlier error and cannot be used again in this "
      "process; "
      "the error was: {}",
      p.message);
}

void fail_cuda(cudaError_t code, const CallSite& site, const std::string& context) {
  check_cuda_usable();
  cudaGetLastError();  // forget an error that does no lasting harm
  const std::string message =
      fmt::format("cuda: {} ({}) at {}{}{}", cudaGetErrorString(code), cudaGetErrorName(code),
                  at(site), context.empty() ? "" : ", ", context);
  if (poisons(code)) {
    Poison& p = poison();
    const std::lock_guard lock(p.mutex);
    if (p.message.empty()) p.message = message;
    p.happened.store(true, std::memory_order_release);
  }
  if (code == cudaErrorMemoryAllocation) throw OutOfMemory(message);
  throw DeviceError(message);
}

void fail_cublas(cublasStatus_t code, const CallSite& site) {
  check_cuda_usable();
  const std::string message =
      fmt::format("cublasLt: {} at {}", cublasLtGetStatusString(code), at(site));
  if (code == CUBLAS_STATUS_ALLOC_FAILED) throw OutOfMemory(message);
  throw DeviceError(message);
}

void fail_cudnn(cudnnStatus_t code, const CallSite& site) {
  check_cuda_usable();
  char detail[512] = "";
  cudnnGetLastErrorString(detail, sizeof detail);
  const std::string message = fmt::format("cudnn: {} at {}{}{}", cudnnGetErrorString(code),
                                          at(site), detail[0] ? ": " : "", detail);
  if (code == CUDNN_STATUS_ALLOC_FAILED ||
      code == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
    throw OutOfMemory(message);
  throw DeviceError(message);
}

}  // namespace mica
