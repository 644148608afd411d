#include "mica/ops/recurrent/cuda_kernels.h"
#include "mica/ops/recurrent/gemm.h"

namespace mica {

using CudaGemm = RecurrentGemm<recurrent_cuda_passes>;

KernelList recurrent_cuda_kernels() {
  return {recurrent_persistent_kernel(), CudaGemm::kernel(), recurrent_cudnn_kernel()};
}
KernelList recurrent_grad_cuda_kernels() {
  return {recurrent_grad_persistent_kernel(), CudaGemm::grad_kernel()};
}

}  // namespace mica
