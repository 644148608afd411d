#include "mica/ops/attention/cuda_kernels.h"

namespace mica {

KernelList attention_cuda_kernels() {
  return {attention_split_keys_kernel(), attention_cudnn_kernel(), attention_wgmma_kernel(),
          attention_tiles_kernel(), attention_direct_kernel()};
}
KernelList attention_grad_cuda_kernels() {
  return {attention_grad_cudnn_kernel(), attention_grad_wgmma_kernel(),
          attention_grad_tiles_kernel(), attention_grad_direct_kernel()};
}

}  // namespace mica
