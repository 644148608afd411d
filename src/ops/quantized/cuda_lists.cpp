// The libraries take bytes with a sign, and their vectors; the rest is computed as it is defined,
// in f32.
#include "mica/ops/quantized/cuda_kernels.h"
#include "mica/ops/quantized/kernels.h"

namespace mica {

KernelList quantized_conv2d_cuda_kernels() {
  return {quantized_conv2d_cudnn_kernel(), quantized_conv2d_composed_kernel()};
}
KernelList quantized_linear_cuda_kernels() {
  return {quantized_linear_cudnn_kernel(), quantized_linear_composed_kernel()};
}
KernelList quantized_conv2d_carrying_cuda_kernels() {
  return {quantized_conv2d_carrying_cudnn_kernel()};
}

}  // namespace mica
