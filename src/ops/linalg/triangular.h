#pragma once

#include "mica/core/tensor.h"
#include "mica/ops/linalg/params.h"

// The op under solve_triangular, for gradients that have no need to transpose what they read.
namespace mica::linalg {

/// a (…, n, n) and b (…, n, k) or (…, k, n), whose batches broadcast.
Tensor solve_triangle(const Tensor& a, const Tensor& b, const TriangularParams& params);

struct SideOptions {
  bool left = true;
  bool adjoint = false;
  bool unit = false;
};
inline Tensor solve_lower(const Tensor& a, const Tensor& b, const SideOptions& o) {
  return solve_triangle(a, b,
                        {.upper = false, .left = o.left, .unit = o.unit, .adjoint = o.adjoint});
}
inline Tensor solve_upper(const Tensor& a, const Tensor& b, const SideOptions& o) {
  return solve_triangle(a, b,
                        {.upper = true, .left = o.left, .unit = o.unit, .adjoint = o.adjoint});
}

/// b (rows, columns), row-major, becomes X by LAPACK.
template <class T>
void solve_by_trsm(const TriangularParams& p, const T* a, T* b, int64_t rows, int64_t columns);

}  // namespace mica::linalg
