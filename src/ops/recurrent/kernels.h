#pragma once

#include "mica/op/kernel.h"

namespace mica {

Kernel recurrent_cpu_gemm_kernel();
Kernel recurrent_grad_cpu_gemm_kernel();
Kernel recurrent_reference_kernel();
Kernel recurrent_grad_reference_kernel();

}  // namespace mica
