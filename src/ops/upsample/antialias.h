#pragma once

#include "mica/ops/upsample/upsample.h"

namespace mica {

/// As `upsample2d`, bilinear or bicubic; where the result is smaller than x, the kernel is as much
/// wider, so that every pixel of x counts.
Tensor upsample2d_antialiased(const Tensor& x, const Upsample2dParams& params);

}  // namespace mica
