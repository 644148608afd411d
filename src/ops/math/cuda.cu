#include "mica/ops/elementwise/kernels.cuh"
#include "mica/ops/math/functors.h"

namespace mica {

using cuda::elementwise_kernels;

KernelList exp_cuda_kernels() { return elementwise_kernels<functor::Exp, 1>(); }
KernelList exp2_cuda_kernels() { return elementwise_kernels<functor::Exp2, 1>(); }
KernelList expm1_cuda_kernels() { return elementwise_kernels<functor::Expm1, 1>(); }
KernelList log_cuda_kernels() { return elementwise_kernels<functor::Log, 1>(); }
KernelList log2_cuda_kernels() { return elementwise_kernels<functor::Log2, 1>(); }
KernelList log10_cuda_kernels() { return elementwise_kernels<functor::Log10, 1>(); }
KernelList log1p_cuda_kernels() { return elementwise_kernels<functor::Log1p, 1>(); }
KernelList sqrt_cuda_kernels() { return elementwise_kernels<functor::Sqrt, 1>(); }
KernelList sin_cuda_kernels() { return elementwise_kernels<functor::Sin, 1>(); }
KernelList cos_cuda_kernels() { return elementwise_kernels<functor::Cos, 1>(); }
KernelList tan_cuda_kernels() { return elementwise_kernels<functor::Tan, 1>(); }
KernelList asin_cuda_kernels() { return elementwise_kernels<functor::Asin, 1>(); }
KernelList acos_cuda_kernels() { return elementwise_kernels<functor::Acos, 1>(); }
KernelList atan_cuda_kernels() { return elementwise_kernels<functor::Atan, 1>(); }
KernelList sinh_cuda_kernels() { return elementwise_kernels<functor::Sinh, 1>(); }
KernelList cosh_cuda_kernels() { return elementwise_kernels<functor::Cosh, 1>(); }
KernelList asinh_cuda_kernels() { return elementwise_kernels<functor::Asinh, 1>(); }
KernelList acosh_cuda_kernels() { return elementwise_kernels<functor::Acosh, 1>(); }
KernelList atanh_cuda_kernels() { return elementwise_kernels<functor::Atanh, 1>(); }
KernelList erf_cuda_kernels() { return elementwise_kernels<functor::Erf, 1>(); }
KernelList tanh_cuda_kernels() { return elementwise_kernels<functor::Tanh, 1>(); }
KernelList sigmoid_cuda_kernels() { return elementwise_kernels<functor::Sigmoid, 1>(); }
KernelList rsqrt_cuda_kernels() { return elementwise_kernels<functor::Rsqrt, 1>(); }
KernelList reciprocal_cuda_kernels() { return elementwise_kernels<functor::Reciprocal, 1>(); }
KernelList floor_cuda_kernels() { return elementwise_kernels<functor::Floor, 1>(); }
KernelList ceil_cuda_kernels() { return elementwise_kernels<functor::Ceil, 1>(); }
KernelList trunc_cuda_kernels() { return elementwise_kernels<functor::Trunc, 1>(); }
KernelList round_cuda_kernels() { return elementwise_kernels<functor::Round, 1>(); }
KernelList square_cuda_kernels() { return elementwise_kernels<functor::Square, 1, Takes::all>(); }
KernelList abs_cuda_kernels() { return elementwise_kernels<functor::Abs, 1, Takes::all>(); }
KernelList sign_cuda_kernels() { return elementwise_kernels<functor::Sign, 1, Takes::all>(); }
KernelList tanh_grad_cuda_kernels() { return elementwise_kernels<functor::TanhGrad, 2>(); }
KernelList sigmoid_grad_cuda_kernels() { return elementwise_kernels<functor::SigmoidGrad, 2>(); }

}  // namespace mica
