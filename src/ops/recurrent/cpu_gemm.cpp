#include "mica/ops/recurrent/gemm.h"
#include "mica/ops/recurrent/kernels.h"

namespace mica {

using CpuGemm = RecurrentGemm<recurrent_cpu_passes>;

Kernel recurrent_cpu_gemm_kernel() {
  return kernel<CpuGemm::supports, CpuGemm::prepare, run_recurrent_gemm, keep_recurrent_gemm>(
      "gemm");
}
Kernel recurrent_grad_cpu_gemm_kernel() { return CpuGemm::grad_kernel(); }

}  // namespace mica
