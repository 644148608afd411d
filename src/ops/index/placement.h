#pragma once

#include <span>

#include "mica/core/spec.h"
#include "mica/core/switch_bytes.h"

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

/// Calls f with the unsigned type of t's size and the bits that make an element not zero: those of
/// floats but the sign, so that -0 is zero.
template <class F>
void switch_bits(DType t, F&& f) {
  switch_bytes(size_of(t), [&]<class W>() {
    const auto all = static_cast<W>(~W{0});
    f(is_floating(t) ? static_cast<W>(all >> 1) : all);
  });
}

}  // namespace mica
