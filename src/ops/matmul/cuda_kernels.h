#pragma once

#include "mica/op/kernel.h"
#include "mica/ops/matmul/matmul.h"

namespace mica {

/// Our own shared-memory product: any strides, every floating dtype, also an empty K.
Kernel matmul_tiled_kernel();
Kernel linear_tiled_kernel();
Kernel linear_act_tiled_kernel();
/// The product of linear_wgrad, its first result, alone.
void run_wgrad_product_tiled(const Call& call);

Kernel matmul_cublaslt_kernel();
Kernel linear_cublaslt_kernel();
Kernel linear_act_cublaslt_kernel();
Kernel linear_wgrad_cublaslt_kernel();

/// Our own kernels of small f32 products.
KernelList matmul_small_kernels();
KernelList linear_small_kernels();
KernelList linear_act_small_kernels();
KernelList linear_wgrad_small_kernels();

/// y (…, N), row-major, becomes activation(y + bias), where it lies; bias (N) may be null.
void finish_linear(Encoder& encoder, const Arg& y, const Arg* bias, Activation activation);

}  // namespace mica
