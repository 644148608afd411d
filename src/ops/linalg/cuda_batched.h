#pragma once

#include "mica/op/kernel.h"

// Kernels of our own: for batches of small matrices, in graphs, and where cuSOLVER is not there.
namespace mica::linalg {

Kernel cholesky_batched();
Kernel lu_factor_batched();
Kernel solve_batched();
Kernel solve_triangular_batched();
Kernel qr_batched();
Kernel svd_batched();
Kernel eigh_batched();
/// In registers: real matrices of up to 32 rows and columns.
Kernel svd_registers();
Kernel eigh_registers();

}  // namespace mica::linalg
