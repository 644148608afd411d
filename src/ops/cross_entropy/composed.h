#pragma once

#include "mica/op/kernel.h"

namespace mica {

/// cross_entropy_with_grad by the two ops, on any device.
Kernel cross_entropy_with_grad_composed_kernel();
/// linear_cross_entropy by `linear` and cross_entropy_with_grad, on any device.
Kernel linear_cross_entropy_composed_kernel();
/// linear_cross_entropy_dgrad by that, `matmul` and the activation's gradient, on any device.
Kernel linear_cross_entropy_dgrad_composed_kernel();

}  // namespace mica
