#pragma once

#include "mica/op/kernel.h"
#include "mica/ops/fft/fft.h"

namespace mica {

// By Stockham's passes, several lines at a time.
Kernel fft_stockham_kernel();
Kernel rfft_stockham_kernel();
Kernel irfft_stockham_kernel();

// The sums as they are defined, in double.
Kernel fft_reference_kernel();
Kernel rfft_reference_kernel();
Kernel irfft_reference_kernel();

}  // namespace mica
