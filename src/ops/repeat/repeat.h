#pragma once

#include "mica/core/tensor.h"

namespace mica {

// Where nothing is repeated the result is x itself, in another shape perhaps.

/// x laid repeats[i] times along axis i; fewer repeats than axes are those of the last axes, and
/// with more repeats than axes x gets axes of size 1 in front.
Tensor tile(const Tensor& x, const Dims& repeats);
/// The same with at least one number for each axis of x.
Tensor repeat(const Tensor& x, const Dims& repeats);
/// Each element of an axis `repeats` times in a row.
Tensor repeat_interleave(const Tensor& x, int64_t repeats, int64_t axis);

/// Which of the first two axes belongs to the first tensor: rows (matrices) or columns (pictures).
enum class MeshIndexing : uint8_t { ij, xy };
/// Coordinates of a grid from those of its axes, each 1-d or 0-d: as views, one for each axis.
Tensors meshgrid(const Tensors& axes, MeshIndexing indexing = MeshIndexing::ij);

}  // namespace mica
