#include "mica/ops/elementwise/functors.h"
#include "mica/ops/elementwise/kernels.cuh"

namespace mica {

using cuda::elementwise_kernels;

KernelList add_cuda_kernels() { return elementwise_kernels<functor::Add, 2>(); }
KernelList sub_cuda_kernels() { return elementwise_kernels<functor::Sub, 2>(); }
KernelList mul_cuda_kernels() { return elementwise_kernels<functor::Mul, 2>(); }
KernelList div_cuda_kernels() { return elementwise_kernels<functor::Div, 2>(); }
KernelList neg_cuda_kernels() { return elementwise_kernels<functor::Neg, 1>(); }
KernelList relu_cuda_kernels() { return elementwise_kernels<functor::Relu, 1>(); }
KernelList relu_grad_cuda_kernels() { return elementwise_kernels<functor::ReluGrad, 2>(); }

}  // namespace mica
