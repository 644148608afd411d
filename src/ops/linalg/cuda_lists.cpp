// Factors of matrices have no kernels on CUDA yet: a call says so.
#include "mica/op/kernel.h"

namespace mica {

KernelList cholesky_cuda_kernels() { return {}; }
KernelList solve_triangular_cuda_kernels() { return {}; }
KernelList lu_factor_cuda_kernels() { return {}; }
KernelList lu_permutation_cuda_kernels() { return {}; }
KernelList solve_cuda_kernels() { return {}; }
KernelList qr_cuda_kernels() { return {}; }
KernelList svd_cuda_kernels() { return {}; }
KernelList eigh_cuda_kernels() { return {}; }
KernelList eig_cuda_kernels() { return {}; }
KernelList cofactor_cuda_kernels() { return {}; }
KernelList matrix_exp_cuda_kernels() { return {}; }

}  // namespace mica
