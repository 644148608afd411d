#pragma once

#include <span>
#include <string>

#include "mica/ops/fused/device.h"
#include "mica/ops/fused/program.h"

namespace mica {

/// A CUDA kernel for a program, as source. It depends on how the tensors lie and on what their
/// elements are, not on their sizes.
struct GeneratedKernel {
  std::string why_not;       ///< a reason, where there is no kernel
  std::string source;        ///< of `extern "C" __global__ void fused(KernelArgs)`
  fused::KernelArgs args{};  ///< without the addresses
  int64_t threads = 0;
};
GeneratedKernel generate_kernel(const Program& program, const Specs& specs);

/// A header that the source may include.
struct EmbeddedHeader {
  const char* name;
  const char* text;
};
std::span<const EmbeddedHeader> embedded_headers();

}  // namespace mica
