#include "mica/ops/conv2d_act/cuda_kernels.h"
#include "mica/ops/conv2d_act/kernels.h"
#include "mica/ops/conv2d_pool/cuda_kernels.h"

namespace mica {

KernelList conv2d_act_own_kernels() {
  return {conv2d_act_implicit_gemm_kernel(), conv2d_act_composed_kernel()};
}

}  // namespace mica
