#pragma once

#include <cstddef>
#include <string>

namespace mica {

class DeviceRuntime;

/// What libmica_cuda brings.
struct CudaLibrary {
  DeviceRuntime* runtime = nullptr;
  void (*attach_kernels)() = nullptr;  ///< gives each op its CUDA kernels
  /// The GPUs its kernels were compiled for: "sm_80, sm_90 and PTX for newer ones".
  const char* architectures = "";
};

/// Opens libmica_cuda when first called. Raises DeviceError with the reason when CUDA cannot be
/// used. The library is $MICA_CUDA_LIBRARY, else the one beside libmica, else the one the loader
/// finds.
const CudaLibrary& cuda_library();

/// Implemented in ops/all_ops_cuda.cpp.
void attach_cuda_kernels();

}  // namespace mica

/// The one symbol libmica looks up in libmica_cuda. False, with a reason in one sentence, when
/// there is no driver or no device.
extern "C" bool mica_cuda_open(mica::CudaLibrary* out, char* reason, size_t reason_size);
