#pragma once

#include <optional>

#include "mica/op/kernel.h"
#include "mica/ops/anchored/anchored.h"

namespace mica {

/// Our own shared-memory product: any strides, every floating dtype, also an empty K.
Kernel matmul_tiled_kernel();
Kernel linear_tiled_kernel();
Kernel linear_carrying_tiled_kernel();
/// The product of linear_wgrad, its first result, alone.
void run_wgrad_product_tiled(const Call& call);

Kernel matmul_cublaslt_kernel();
Kernel linear_cublaslt_kernel();
Kernel linear_carrying_cublaslt_kernel();
Kernel linear_carrying_cudnn_kernel();
/// A layer and the GELU with tanh that keeps what the GELU was taken of, and the product with that
/// GELU's gradient after it.
Kernel product_carrying_gelu_kernel();
/// A layer whose result is added to something.
Kernel linear_carrying_sum_kernel();
/// Of large products, with any program.
Kernel product_carrying_wgmma_kernel();
Kernel linear_wgrad_cublaslt_kernel();
/// Of up to eight rows on the left, with K together in both operands.
Kernel matmul_few_rows_kernel();
Kernel linear_few_rows_kernel();
Kernel product_carrying_few_rows_kernel();

/// Our own kernels of small f32 products.
KernelList matmul_small_kernels();
KernelList linear_small_kernels();
KernelList linear_wgrad_small_kernels();
KernelList product_carrying_small_kernels();

/// The activation that is all that a call does to the result of a linear layer.
std::optional<Activation> ending_activation(const AnchoredParams& params, const Specs& specs);

/// y (N) of x (M, N): the sum of its rows, in a workspace of so many bytes.
bool row_sums_take(const TensorSpec& x, const TensorSpec& y);
size_t row_sums_workspace(const TensorSpec& x, int multiprocessors);
void run_row_sums(const Call& call, const Arg& x, const Arg& y);

/// y (…, N), row-major, becomes activation(y + bias), where it lies; bias (N) may be null.
void finish_linear(Encoder& encoder, const Arg& y, const Arg* bias, Activation activation);

}  // namespace mica
