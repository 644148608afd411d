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

/// Of stride 2 and few channels by the library's of stride 1, the pixels of a square as channels.
Kernel conv2d_space_to_depth_kernel();
Kernel conv2d_wgrad_space_to_depth_kernel();

}  // namespace mica
