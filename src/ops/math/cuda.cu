#include "mica/ops/elementwise/kernels.cuh"
#include "mica/ops/math/functors.h"

namespace mica {

using cuda::elementwise_kernels;

namespace {

KernelList with(KernelList kernels, Kernel more) {
  kernels.push_back(more);
  return kernels;
}

}  // namespace

#define MICA_WIDE_OP(name, type) \
  KernelList name##_cuda_kernels() { return elementwise_kernels<functor::type, 1>(); }
#define MICA_WIDE_OP_COMPLEX(name, type)                                                \
  Kernel name##_complex_cuda_kernel();                                                  \
  KernelList name##_cuda_kernels() {                                                    \
    return with(elementwise_kernels<functor::type, 1>(), name##_complex_cuda_kernel()); \
  }
#include "mica/ops/math/wide_ops.h"
Kernel square_complex_cuda_kernel();

KernelList floor_cuda_kernels() { return elementwise_kernels<functor::Floor, 1>(); }
KernelList ceil_cuda_kernels() { return elementwise_kernels<functor::Ceil, 1>(); }
KernelList trunc_cuda_kernels() { return elementwise_kernels<functor::Trunc, 1>(); }
KernelList round_cuda_kernels() { return elementwise_kernels<functor::Round, 1>(); }
KernelList square_cuda_kernels() {
  return with(elementwise_kernels<functor::Square, 1, Takes::all>(), square_complex_cuda_kernel());
}
KernelList abs_cuda_kernels() { return elementwise_kernels<functor::Abs, 1, Takes::all>(); }
KernelList sign_cuda_kernels() { return elementwise_kernels<functor::Sign, 1, Takes::all>(); }
KernelList tanh_grad_cuda_kernels() { return elementwise_kernels<functor::TanhGrad, 2>(); }
KernelList sigmoid_grad_cuda_kernels() { return elementwise_kernels<functor::SigmoidGrad, 2>(); }

}  // namespace mica
