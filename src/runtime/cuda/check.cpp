#include "mica/runtime/cuda/check.h"

#include <atomic>
#include <mutex>
#include <string_view>

#include "mica/core/check.h"
#include "mica/runtime/cuda/encoder.h"
#include "mica/runtime/op_scope.h"

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
    case cudaErrorContextIsDestroyed:
    case cudaErrorContained:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorExternalDevice:
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
      "cuda: the CUDA context was lost by an earlier error, and CUDA can be used again only in a "
      "new process; tensors on the CPU are not affected. The error was: {}",
      p.message);
}

void fail_cuda(cudaError_t code, const CallSite& site, const std::string& context) {
  check_cuda_usable();
  cudaGetLastError();  // forget an error that does no lasting harm
  std::string message =
      fmt::format("cuda: {} ({}) at {}{}{}", cudaGetErrorString(code), cudaGetErrorName(code),
                  at(site), context.empty() ? "" : ", ", context);
  if (code == cudaErrorMemoryAllocation) throw OutOfMemory(message);
  if (code == cudaErrorNoKernelImageForDevice)
    message +=
        "; this mica was built for " MICA_CUDA_ARCHITECTURES " (CMAKE_CUDA_ARCHITECTURES chooses)";
  if (poisons(code)) {
    message += Encoder::recent_work();
    Poison& p = poison();
    const std::lock_guard lock(p.mutex);
    if (p.message.empty()) p.message = message;
    p.happened.store(true, std::memory_order_release);
  } else if (const char* op = current_op()) {
    message = fmt::format("{}: {}", op, message);
  }
  throw DeviceError(message);
}

namespace {

/// A library that fails because a kernel failed before it does not say so.
void check_context(const CallSite& site) {
  check_cuda_usable();
  cudaError_t code = cudaPeekAtLastError();
  if (!poisons(code)) code = cudaFree(nullptr);
  if (poisons(code)) fail_cuda(code, site);
}

}  // namespace

void fail_cublas(cublasStatus_t code, const CallSite& site) {
  check_context(site);
  const std::string message =
      fmt::format("cublasLt: {} at {}", cublasLtGetStatusString(code), at(site));
  if (code == CUBLAS_STATUS_ALLOC_FAILED) throw OutOfMemory(message);
  throw DeviceError(message);
}

void fail_cudnn(cudnnStatus_t code, const CallSite& site) {
  check_context(site);
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
