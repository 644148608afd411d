#pragma once

#include "mica/op/kernel.h"

namespace mica {

// In threads over rows, with vectors over the columns of the dense operands.
Kernel csr_matmul_rows_kernel();
Kernel csr_sampled_matmul_rows_kernel();

}  // namespace mica
