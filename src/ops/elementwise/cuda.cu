#include "mica/ops/complex/kernels.cuh"
#include "mica/ops/elementwise/functors.h"
#include "mica/ops/elementwise/kernels.cuh"

namespace mica {

using cuda::elementwise_kernels;
using cuda::with_complex;

KernelList add_cuda_kernels() {
  return with_complex<complex_functor::Add, 2>(elementwise_kernels<functor::Add, 2, Takes::all>());
}
KernelList sub_cuda_kernels() {
  return with_complex<complex_functor::Sub, 2>(elementwise_kernels<functor::Sub, 2, Takes::all>());
}
KernelList mul_cuda_kernels() {
  return with_complex<complex_functor::Mul, 2>(elementwise_kernels<functor::Mul, 2, Takes::all>());
}
KernelList div_cuda_kernels() {
  return with_complex<complex_functor::Div, 2>(elementwise_kernels<functor::Div, 2>());
}
KernelList floor_divide_cuda_kernels() {
  return elementwise_kernels<functor::FloorDivide, 2, Takes::all>();
}
KernelList remainder_cuda_kernels() {
  return elementwise_kernels<functor::Remainder, 2, Takes::all>();
}
KernelList pow_cuda_kernels() {
  return with_complex<complex_functor::Pow, 2>(elementwise_kernels<functor::Pow, 2, Takes::all>());
}
KernelList minimum_cuda_kernels() { return elementwise_kernels<functor::Minimum, 2, Takes::all>(); }
KernelList maximum_cuda_kernels() { return elementwise_kernels<functor::Maximum, 2, Takes::all>(); }
KernelList atan2_cuda_kernels() { return elementwise_kernels<functor::Atan2, 2>(); }
KernelList lerp_cuda_kernels() { return elementwise_kernels<functor::Lerp, 3>(); }
KernelList neg_cuda_kernels() {
  return with_complex<complex_functor::Neg, 1>(elementwise_kernels<functor::Neg, 1, Takes::all>());
}
KernelList relu_cuda_kernels() { return elementwise_kernels<functor::Relu, 1, Takes::all>(); }
KernelList relu_grad_cuda_kernels() { return elementwise_kernels<functor::ReluGrad, 2>(); }

}  // namespace mica
