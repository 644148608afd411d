#pragma once

#include <cuda_runtime.h>

#include <span>
#include <string>

#include "mica/runtime/embedded_header.h"

namespace mica::cuda {

/// Machine code for GPUs like `architecture` ("sm_90") from a source that may include `headers`, by
/// NVRTC; needs no GPU. Raises Error with the compiler's words.
std::string compile_source(const std::string& source, std::span<const EmbeddedHeader> headers,
                           const std::string& architecture);

/// The kernel `name` (extern "C") of a source for a device: compiled once per process, and kept on
/// disk.
cudaKernel_t load_kernel(const std::string& source, std::span<const EmbeddedHeader> headers,
                         const char* name, int device);

}  // namespace mica::cuda
