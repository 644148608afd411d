#pragma once

#include <span>

#include "mica/core/spec.h"

namespace mica {

/// Which axes of x[indices] come from where.
struct Placement {
  Shape shape;    ///< of the result
  Shape indices;  ///< of the indices, broadcast
  int at = 0;     ///< where they stand in the result
};

/// Checks the indices of x; `op` names the operator in errors.
Placement place_indices(const char* op, const Shape& x, const Dims& axes,
                        std::span<const TensorSpec> indices);

/// Elements of x that nonzero_ends counts together: nonzero writes each block's positions where
/// those of the blocks before it end.
inline constexpr int64_t kNonzeroBlock = 1 << 15;

}  // namespace mica
