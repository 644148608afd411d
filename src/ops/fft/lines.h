#pragma once

#include "mica/ops/fft/fft.h"

namespace mica {

// The ops: transforms of the last axis.
Tensor transform_line(const Tensor& x, const FftParams& params);
Tensor line_to_half(const Tensor& x, const RealFftParams& params);
Tensor half_to_line(const Tensor& x, const RealFftParams& params);

}  // namespace mica
