#pragma once

#include <cstdint>

#include "mica/ops/collective/communicator.h"

namespace mica::distributed {

/// out[i] = parts[0][i] + parts[1][i] + … of `ranks` parts of n elements that lie one after the
/// other, in that order; avg divides by their number. f16 and bf16 are added in f32 and rounded
/// once. `out` may be the first part.
void reduce_parts(const void* parts, int ranks, int64_t n, DType dtype, ReduceOp op, void* out);

}  // namespace mica::distributed
