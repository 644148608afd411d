#pragma once

#include "mica/op/kernel.h"

namespace mica {

/// Without a library: any strides, every floating dtype.
Kernel conv3d_direct_kernel();
Kernel conv3d_dgrad_direct_kernel();
Kernel conv3d_wgrad_direct_kernel();

}  // namespace mica
