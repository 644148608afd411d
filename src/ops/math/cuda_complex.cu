#include "mica/ops/complex/kernels.cuh"

namespace mica {

#define MICA_WIDE_OP(name, type)
#define MICA_WIDE_OP_COMPLEX(name, type) \
  Kernel name##_complex_cuda_kernel() { return cuda::complex_kernel<complex_functor::type>(); }
#include "mica/ops/math/wide_ops.h"

Kernel square_complex_cuda_kernel() { return cuda::complex_kernel<complex_functor::Square>(); }

}  // namespace mica
