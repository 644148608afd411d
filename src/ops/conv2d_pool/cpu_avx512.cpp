#include "mica/ops/conv2d_pool/rows.h"

namespace mica::pooled::avx512 {

const RowKernels kRows = row_kernels<Vectors>();

}  // namespace mica::pooled::avx512
