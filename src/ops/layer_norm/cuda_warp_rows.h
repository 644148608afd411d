#pragma once

#include "mica/op/kernel.h"

// Of rows that a warp holds.
namespace mica {

/// A sum of two tensors and the layer norm of it.
Kernel layer_norm_carrying_sum_kernel();
/// A layer norm.
Kernel layer_norm_warp_kernel();
/// Its gradient.
Kernel layer_norm_grad_warp_kernel();
/// The same and a sum after it.
Kernel layer_norm_grad_carrying_sum_kernel();

}  // namespace mica
