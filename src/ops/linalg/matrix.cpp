#include "mica/ops/linalg/matrix.h"

#include "mica/ops/fill/fill.h"

namespace mica::linalg {

Tensor diagonal_matrix(const Tensor& x) {
  const int64_t n = x.shape().back();
  const Shape shape = with(x.shape(), {n});
  return diagonal_grad(x, {{.offset = 0, .axis1 = x.rank() - 1, .axis2 = x.rank()}, shape});
}

Tensor eye_like(const Tensor& x, int64_t n) { return eye(n, n, {x.dtype(), x.device()}); }

}  // namespace mica::linalg
