#include "mica/ops/linalg/cuda_batched.h"
#include "mica/ops/linalg/cuda_cusolver.h"

namespace mica {

using namespace linalg;

KernelList cholesky_cuda_kernels() { return {cholesky_batched(), cholesky_cusolver()}; }
KernelList solve_triangular_cuda_kernels() {
  return {solve_triangular_batched(), solve_triangular_cublas()};
}
KernelList lu_factor_cuda_kernels() { return {lu_factor_batched(), lu_factor_cusolver()}; }
KernelList solve_cuda_kernels() { return {solve_batched(), solve_cusolver()}; }
KernelList qr_cuda_kernels() { return {qr_batched(), qr_cusolver()}; }
KernelList svd_cuda_kernels() { return {svd_registers(), svd_batched(), svd_cusolver()}; }
KernelList eigh_cuda_kernels() { return {eigh_registers(), eigh_batched(), eigh_cusolver()}; }
KernelList eig_cuda_kernels() { return {eig_cusolver()}; }

}  // namespace mica
