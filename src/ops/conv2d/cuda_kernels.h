#pragma once

#include "mica/op/kernel.h"

namespace mica {

/// Our own convolutions: every size, stride, dilation, group count, layout and floating dtype;
/// deterministic.
Kernel conv2d_direct_kernel();
Kernel conv2d_dgrad_direct_kernel();
Kernel conv2d_wgrad_direct_kernel();

/// y (N, C, H, W), dense row-major or channels_last, plus bias (C), in place.
void add_channel_bias(Encoder& encoder, const Arg& y, const Arg& bias);

/// Copies a dense channels_last weight into the row-major `to` of the same shape.
void weight_to_row_major(Encoder& encoder, const void* from, const Arg& to);

}  // namespace mica
