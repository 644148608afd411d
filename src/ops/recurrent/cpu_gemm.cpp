#include "mica/ops/recurrent/gemm.h"
#include "mica/ops/recurrent/kernels.h"

namespace mica {

using CpuGemm = RecurrentGemm<recurrent_cpu_passes>;

Kernel recurrent_cpu_gemm_kernel() { return CpuGemm::kernel(); }
Kernel recurrent_grad_cpu_gemm_kernel() { return CpuGemm::grad_kernel(); }

}  // namespace mica
