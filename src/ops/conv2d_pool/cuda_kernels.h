#pragma once

#include "mica/op/kernel.h"

namespace mica {

/// By tensor cores, with every operand in shared memory; f32 where TF32 is allowed.
Kernel conv2d_pool_implicit_gemm_kernel();
Kernel conv2d_pool_dgrad_implicit_gemm_kernel();
Kernel conv2d_dgrad_implicit_gemm_kernel();
Kernel conv2d_pool_wgrad_implicit_gemm_kernel();

}  // namespace mica
