#pragma once

#include <cuda_runtime.h>

#include <string>

#include "mica/ops/fused/generator.h"

namespace mica {

class Encoder;

/// The kernel of a generated source; raises Unsupported in the name of `op` where it does not
/// compile, and selection goes on to the next kernel. `few_digits`: what it computes has some ten
/// bits, and the GPU's fast functions are exact enough.
cudaKernel_t load_generated(const char* op, const std::string& source, int device,
                            bool few_digits = false);

/// A generated kernel of a program, as it is launched.
struct GeneratedLaunch {
  cudaKernel_t kernel = nullptr;
  fused::KernelArgs args{};  ///< without the addresses
  unsigned grid = 0;

  GeneratedLaunch() = default;
  GeneratedLaunch(const char* op, const GeneratedKernel& generated, int device);
  /// `args` with the addresses.
  void run(Encoder& encoder, const fused::KernelArgs& all) const;
};

}  // namespace mica
