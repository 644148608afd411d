#pragma once

#include <cuda_runtime.h>

#include <span>
#include <string>

#include "mica/runtime/embedded_header.h"

namespace mica::cuda {

/// Machine code for GPUs like `architecture` ("sm_90") from a source that may include `headers`, by
/// NVRTC; needs no GPU. Raises Error with the compiler's words. `few_digits`: divisions and roots
/// need not be exact to the last bit, nor numbers below 2^-126 be kept.
std::string compile_source(const std::string& source, std::span<const EmbeddedHeader> headers,
                           const std::string& architecture, bool few_digits = false);

/// The kernel `name` (extern "C") of a source for a device: compiled once per process, and kept on
/// disk.
cudaKernel_t load_kernel(const std::string& source, std::span<const EmbeddedHeader> headers,
                         const char* name, int device, bool few_digits = false);

}  // namespace mica::cuda
