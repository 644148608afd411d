// Sparse matrices have no kernels on CUDA yet: calls there are refused, and the message names the
// op.
#include "mica/op/kernel.h"

namespace mica {

KernelList csr_check_cuda_kernels() { return {}; }
KernelList csr_coordinates_cuda_kernels() { return {}; }
KernelList csr_transpose_cuda_kernels() { return {}; }
KernelList coo_keys_cuda_kernels() { return {}; }
KernelList csr_matmul_cuda_kernels() { return {}; }
KernelList csr_sampled_matmul_cuda_kernels() { return {}; }
KernelList csr_softmax_cuda_kernels() { return {}; }
KernelList csr_product_ends_cuda_kernels() { return {}; }
KernelList csr_product_cuda_kernels() { return {}; }
KernelList csr_sampled_product_cuda_kernels() { return {}; }

}  // namespace mica
