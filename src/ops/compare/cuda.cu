#include "mica/ops/compare/functors.h"
#include "mica/ops/complex/kernels.cuh"
#include "mica/ops/elementwise/kernels.cuh"

namespace mica {

using cuda::elementwise_kernels;
using cuda::with_complex;

KernelList eq_cuda_kernels() {
  return with_complex<complex_functor::Eq, 2>(elementwise_kernels<functor::Eq, 2, Takes::all>());
}
KernelList ne_cuda_kernels() {
  return with_complex<complex_functor::Ne, 2>(elementwise_kernels<functor::Ne, 2, Takes::all>());
}
KernelList lt_cuda_kernels() { return elementwise_kernels<functor::Lt, 2, Takes::all>(); }
KernelList le_cuda_kernels() { return elementwise_kernels<functor::Le, 2, Takes::all>(); }
KernelList gt_cuda_kernels() { return elementwise_kernels<functor::Gt, 2, Takes::all>(); }
KernelList ge_cuda_kernels() { return elementwise_kernels<functor::Ge, 2, Takes::all>(); }
KernelList logical_and_cuda_kernels() {
  return elementwise_kernels<functor::LogicalAnd, 2, Takes::all>();
}
KernelList logical_or_cuda_kernels() {
  return elementwise_kernels<functor::LogicalOr, 2, Takes::all>();
}
KernelList logical_xor_cuda_kernels() {
  return elementwise_kernels<functor::LogicalXor, 2, Takes::all>();
}
KernelList logical_not_cuda_kernels() {
  return elementwise_kernels<functor::LogicalNot, 1, Takes::all>();
}
KernelList isnan_cuda_kernels() { return elementwise_kernels<functor::IsNan, 1, Takes::all>(); }
KernelList isinf_cuda_kernels() { return elementwise_kernels<functor::IsInf, 1, Takes::all>(); }
KernelList isfinite_cuda_kernels() {
  return elementwise_kernels<functor::IsFinite, 1, Takes::all>();
}
KernelList signbit_cuda_kernels() { return elementwise_kernels<functor::SignBit, 1, Takes::all>(); }
KernelList bitwise_and_cuda_kernels() {
  return elementwise_kernels<functor::BitwiseAnd, 2, Takes::bits>();
}
KernelList bitwise_or_cuda_kernels() {
  return elementwise_kernels<functor::BitwiseOr, 2, Takes::bits>();
}
KernelList bitwise_xor_cuda_kernels() {
  return elementwise_kernels<functor::BitwiseXor, 2, Takes::bits>();
}
KernelList left_shift_cuda_kernels() {
  return elementwise_kernels<functor::LeftShift, 2, Takes::bits>();
}
KernelList right_shift_cuda_kernels() {
  return elementwise_kernels<functor::RightShift, 2, Takes::bits>();
}
KernelList bitwise_not_cuda_kernels() {
  return elementwise_kernels<functor::BitwiseNot, 1, Takes::bits>();
}

}  // namespace mica
