#include "mica/ops/elementwise/kernels.cuh"
#include "mica/ops/hardswish/functors.h"

namespace mica {

KernelList hardswish_cuda_kernels() { return cuda::elementwise_kernels<functor::Hardswish, 1>(); }
KernelList hardswish_grad_cuda_kernels() {
  return cuda::elementwise_kernels<functor::HardswishGrad, 2>();
}

}  // namespace mica
