#pragma once

#include "mica/op/kernel.h"

namespace mica {

/// The ops that they are made of, one after the other; on any device.
Kernel conv2d_batch_norm_composed_kernel();
Kernel conv2d_dgrad_batch_norm_grad_composed_kernel();

}  // namespace mica
