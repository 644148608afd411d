#include "mica/ops/conv2d_pool/cuda_kernels.h"
#include "mica/ops/conv2d_pool/kernels.h"

namespace mica {

KernelList conv2d_pool_cuda_kernels() {
  return {conv2d_pool_implicit_gemm_kernel(), conv2d_pool_composed_kernel()};
}

KernelList conv2d_pool_dgrad_cuda_kernels() {
  return {conv2d_pool_dgrad_implicit_gemm_kernel(), conv2d_pool_dgrad_composed_kernel()};
}

KernelList conv2d_pool_wgrad_cuda_kernels() {
  return {conv2d_pool_wgrad_implicit_gemm_kernel(), conv2d_pool_wgrad_composed_kernel()};
}

}  // namespace mica
