#pragma once

#include "mica/core/tensor.h"

namespace mica::linalg {

/// The rows of a in the order of L U, (…, rows), i64: a[permutation[i]] = (L U)[i]; or, `inverse`,
/// where each row of a went.
Tensor lu_permutation(const Tensor& pivots, int64_t rows, bool inverse);
/// The rows of x (…, m, n) in the order of a permutation (…, m).
Tensor permute_rows(const Tensor& x, const Tensor& permutation);

}  // namespace mica::linalg
