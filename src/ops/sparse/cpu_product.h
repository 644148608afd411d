#pragma once

#include "mica/ops/sparse/cpu_pattern.h"

namespace mica {

// In threads over rows, each with a row of the result as if it were dense.
Kernel csr_product_ends_rows_kernel();
Kernel csr_product_rows_kernel();
Kernel csr_sampled_product_rows_kernel();
// With maps from columns to sums.
Kernel csr_product_reference_kernel();
Kernel csr_sampled_product_reference_kernel();

}  // namespace mica
