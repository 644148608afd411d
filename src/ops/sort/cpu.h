#pragma once

#include "mica/op/kernel.h"

namespace mica {

Kernel sort_radix_kernel();
Kernel sort_reference_kernel();
Kernel topk_selection_kernel();
Kernel topk_reference_kernel();
Kernel unique_radix_kernel();
Kernel unique_reference_kernel();
Kernel searchsorted_reference_kernel();

}  // namespace mica
