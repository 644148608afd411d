#pragma once

#include <cuda_runtime.h>

#include <span>
#include <string>
#include <vector>

#include "mica/runtime/embedded_header.h"

namespace mica::cuda {

/// What NVRTC is given.
struct ProgramSource {
  std::string source;
  std::string file = "generated.cu";  ///< what its messages call the source
  std::span<const EmbeddedHeader> headers = {};
  std::string architecture;  ///< "sm_90"
  std::vector<std::string> options = {};
  std::vector<std::string> expressions = {};  ///< names of functions, "scale<float>"
};
struct CompiledProgram {
  std::string code;                ///< for the GPU
  std::vector<std::string> names;  ///< what each expression is called in the code
};
/// Needs no GPU. Raises Error with the compiler's words.
CompiledProgram compile_program(const ProgramSource& program);
/// "13.0".
std::string nvrtc_version();
/// The folder of the toolkit's headers that belongs to NVRTC; empty where there is none.
std::string toolkit_headers();

/// A kernel of machine code, which stays loaded; null where the driver does not take it.
cudaKernel_t load_code(const std::string& code, const char* name);
/// "sm_90a": with the instructions that this architecture alone has.
std::string architecture_of(int device);

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
