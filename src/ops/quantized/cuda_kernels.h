#pragma once

#include "mica/op/kernel.h"

namespace mica {

/// Of bytes with a sign, by cuDNN; the second with a program of a residual, ReLU and rounding to
/// bytes after it.
Kernel quantized_conv2d_cudnn_kernel();
Kernel quantized_conv2d_carrying_cudnn_kernel();
/// As a convolution of images of one pixel.
Kernel quantized_linear_cudnn_kernel();

}  // namespace mica
