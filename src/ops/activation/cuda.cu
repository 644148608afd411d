#include "mica/ops/activation/functors.h"
#include "mica/ops/elementwise/kernels.cuh"

namespace mica {

using cuda::elementwise_kernels;

KernelList leaky_relu_cuda_kernels() { return elementwise_kernels<functor::LeakyRelu, 1>(); }
KernelList leaky_relu_grad_cuda_kernels() {
  return elementwise_kernels<functor::LeakyReluGrad, 2>();
}
KernelList elu_cuda_kernels() { return elementwise_kernels<functor::Elu, 1>(); }
KernelList elu_grad_cuda_kernels() { return elementwise_kernels<functor::EluGrad, 2>(); }
KernelList selu_cuda_kernels() { return elementwise_kernels<functor::Selu, 1>(); }
KernelList selu_grad_cuda_kernels() { return elementwise_kernels<functor::SeluGrad, 2>(); }
KernelList gelu_cuda_kernels() { return elementwise_kernels<functor::Gelu, 1>(); }
KernelList gelu_grad_cuda_kernels() { return elementwise_kernels<functor::GeluGrad, 2>(); }
KernelList gelu_tanh_cuda_kernels() { return elementwise_kernels<functor::GeluTanh, 1>(); }
KernelList gelu_tanh_grad_cuda_kernels() { return elementwise_kernels<functor::GeluTanhGrad, 2>(); }
KernelList silu_cuda_kernels() { return elementwise_kernels<functor::Silu, 1>(); }
KernelList silu_grad_cuda_kernels() { return elementwise_kernels<functor::SiluGrad, 2>(); }
KernelList softplus_cuda_kernels() { return elementwise_kernels<functor::Softplus, 1>(); }
KernelList softplus_grad_cuda_kernels() { return elementwise_kernels<functor::SoftplusGrad, 2>(); }
KernelList hardsigmoid_cuda_kernels() { return elementwise_kernels<functor::Hardsigmoid, 1>(); }
KernelList hardsigmoid_grad_cuda_kernels() {
  return elementwise_kernels<functor::HardsigmoidGrad, 2>();
}
KernelList mish_cuda_kernels() { return elementwise_kernels<functor::Mish, 1>(); }
KernelList mish_grad_cuda_kernels() { return elementwise_kernels<functor::MishGrad, 2>(); }
KernelList prelu_cuda_kernels() { return elementwise_kernels<functor::Prelu, 2>(); }

}  // namespace mica
