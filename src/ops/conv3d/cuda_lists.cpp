#include "mica/ops/conv/cuda_cudnn.h"
#include "mica/ops/conv3d/conv3d.h"
#include "mica/ops/conv3d/cuda_kernels.h"

namespace mica {

KernelList conv3d_cuda_kernels() {
  return {cudnn_forward_kernel<Conv3dParams>(), conv3d_direct_kernel()};
}
KernelList conv3d_dgrad_cuda_kernels() {
  return {cudnn_dgrad_kernel<Conv3dGradParams>(), conv3d_dgrad_direct_kernel()};
}
KernelList conv3d_wgrad_cuda_kernels() {
  return {cudnn_wgrad_kernel<Conv3dGradParams>(), conv3d_wgrad_direct_kernel()};
}

}  // namespace mica
