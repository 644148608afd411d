#pragma once

// Kernels of convolutions that may carry a program.
#include <optional>

#include "mica/op/kernel.h"
#include "mica/ops/anchored/anchored.h"

namespace mica {

/// What is done to the result of a convolution that carries a program, where kernels written by
/// hand can do it.
std::optional<KnownAfter> conv2d_end(const AnchoredParams& params, const Specs& specs);

/// As conv2d_space_to_depth_kernel, with a sum and an activation.
Kernel conv2d_carrying_space_to_depth_kernel();

/// Of single pixels, or of few images: a product of matrices by cuBLASLt.
Kernel conv2d_cublaslt_kernel();
Kernel conv2d_carrying_cublaslt_kernel();

}  // namespace mica
