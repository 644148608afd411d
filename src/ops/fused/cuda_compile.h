#pragma once

#include <cuda_runtime.h>

#include <string>

namespace mica::cuda {

/// Machine code for GPUs like `architecture` ("sm_90") from a kernel's source, by NVRTC; needs no
/// GPU. Raises Error with the compiler's words.
std::string compile_source(const std::string& source, const std::string& architecture);

/// The kernel `fused` of a source for a device: compiled once per process, and kept on disk.
cudaKernel_t load_kernel(const std::string& source, int device);

}  // namespace mica::cuda
