#pragma once

#include "mica/core/tensor.h"

namespace mica {

/// A matrix transposed; what has fewer axes is itself.
Tensor t(const Tensor& x);
/// One axis as several, of which one size may be -1.
Tensor unflatten(const Tensor& x, int64_t axis, const Shape& sizes);
/// A vector (n) on a diagonal of a matrix of zeros, or a copy of that diagonal of a matrix.
Tensor diag(const Tensor& x, int64_t diagonal = 0);
/// The sum of a matrix's main diagonal.
Tensor trace(const Tensor& x);

// x itself, or with axes of size 1 added where NumPy adds them.
Tensor atleast_1d(const Tensor& x);
/// (n) becomes (1, n).
Tensor atleast_2d(const Tensor& x);
/// (n) becomes (1, n, 1), and (m, n) becomes (m, n, 1).
Tensor atleast_3d(const Tensor& x);

}  // namespace mica
