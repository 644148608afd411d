#pragma once

#include "mica/op/kernel.h"

// Kernels by cuSOLVER and cuBLAS, one matrix of a batch after the other.
namespace mica::linalg {

Kernel cholesky_cusolver();
Kernel lu_factor_cusolver();
Kernel solve_cusolver();
Kernel solve_triangular_cublas();
Kernel qr_cusolver();
Kernel svd_cusolver();
Kernel eigh_cusolver();
Kernel eig_cusolver();

}  // namespace mica::linalg
