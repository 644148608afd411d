#pragma once

#include "mica/op/kernel.h"

namespace mica {

/// Our own shared-memory product: any strides, every floating dtype, also an empty K.
Kernel matmul_tiled_kernel();
Kernel linear_tiled_kernel();

}  // namespace mica
