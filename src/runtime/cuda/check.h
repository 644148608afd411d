#pragma once

#include <cublasLt.h>
#include <cuda_runtime.h>
#include <cudnn.h>

#include <source_location>
#include <string>

namespace mica {

// Each throws OutOfMemory where memory ran out and DeviceError otherwise, with the library's words
// for the code and the place of the call. An error that a kernel left behind is found by any later
// call: it is raised with the ops it may come from. It poisons the CUDA context: from then on every
// check says so and names that first error.

using CallSite = std::source_location;

[[noreturn]] void fail_cuda(cudaError_t code, const CallSite& site,
                            const std::string& context = {});
[[noreturn]] void fail_cublas(cublasStatus_t code, const CallSite& site);
[[noreturn]] void fail_cudnn(cudnnStatus_t code, const CallSite& site);

inline void check_cuda(cudaError_t code, const CallSite& site = CallSite::current()) {
  if (code != cudaSuccess) [[unlikely]]
    fail_cuda(code, site);
}
inline void check_cublas(cublasStatus_t code, const CallSite& site = CallSite::current()) {
  if (code != CUBLAS_STATUS_SUCCESS) [[unlikely]]
    fail_cublas(code, site);
}
inline void check_cudnn(cudnnStatus_t code, const CallSite& site = CallSite::current()) {
  if (code != CUDNN_STATUS_SUCCESS) [[unlikely]]
    fail_cudnn(code, site);
}

/// Raises DeviceError when an earlier error has poisoned the CUDA context. For work that makes no
/// CUDA call of its own, such as taking a cached block.
void check_cuda_usable();

}  // namespace mica
