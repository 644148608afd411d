#pragma once

#include "mica/op/kernel.h"

namespace mica {

// The two elementwise passes that a convolution by cuDNN may need beside it.

/// y (N, C, …), dense row-major or channels_last, plus bias (C), in place.
void add_channel_bias(Encoder& encoder, const Arg& y, const Arg& bias);

/// Copies a dense channels_last weight into the row-major `to` of the same shape.
void weight_to_row_major(Encoder& encoder, const void* from, const Arg& to);

}  // namespace mica
