#include "mica/ops/elementwise/kernels.cuh"
#include "mica/ops/loss/functors.h"

namespace mica {

using cuda::elementwise_kernels;

KernelList binary_cross_entropy_cuda_kernels() {
  return elementwise_kernels<functor::BinaryCrossEntropy, 2>();
}
KernelList binary_cross_entropy_with_logits_cuda_kernels() {
  return elementwise_kernels<functor::BinaryCrossEntropyWithLogits, 2>();
}

}  // namespace mica
