#pragma once

// Programs as parts of CUDA kernels: the anchor's kernel is compiled with what follows it when the
// call is prepared, from the source that is compiled in for the programs most networks have.
#include <cuda_runtime.h>

#include <string>

#include "mica/ops/anchored/anchored.h"
#include "mica/ops/fused/carrying_source.h"
#include "mica/ops/fused/device.h"

namespace mica {

/// A kernel with the program after an anchor, or with that before it.
struct CarriedKernel {
  cudaKernel_t kernel = nullptr;
  fused::KernelArgs args{};  ///< of the program, without the addresses

  fused::KernelArgs arguments(const AnchoredParams& params, const Call& call) const;
};

/// Why a kernel cannot do what follows a call of `anchor`, or, `either`, what makes its operand;
/// empty where it can.
std::string why_not_carried(const AnchoredParams& params, const OpDef& anchor, const Specs& specs,
                            bool either = false);

/// Raises Unsupported where it does not compile.
CarriedKernel load_carried(const AnchoredParams& params, const Specs& specs,
                           const CarryingSource& source);

}  // namespace mica
