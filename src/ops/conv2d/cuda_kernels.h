#pragma once

#include "mica/op/kernel.h"

namespace mica {

/// Our own convolutions: every size, stride, dilation, group count, layout and floating dtype;
/// deterministic.
Kernel conv2d_direct_kernel();
Kernel conv2d_dgrad_direct_kernel();
Kernel conv2d_wgrad_direct_kernel();

/// Our own convolutions of few channels, where they are faster than the library's.
Kernel conv2d_few_channels_mma_kernel();
Kernel conv2d_few_channels_kernel();
Kernel conv2d_wgrad_few_channels_mma_kernel();
Kernel conv2d_wgrad_few_channels_kernel();

}  // namespace mica
