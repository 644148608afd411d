#include "mica/ops/view/rearrange.h"

#include <cstdlib>

#include "mica/core/check.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"

namespace mica {

Tensor t(const Tensor& x) {
  check<ShapeError>(x.rank() <= 2, "t: expected at most two axes, got {}", x.shape());
  return x.rank() < 2 ? x : transpose(x, 0, 1);
}

Tensor unflatten(const Tensor& x, int64_t axis, const Shape& sizes) {
  const int at = normalize_axis(axis, x.rank(), "unflatten");
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != at) shape.push_back(x.size(i));
    if (i == at)
      for (const int64_t size : sizes) shape.push_back(size);
  }
  return reshape(x, shape);
}

Tensor diag(const Tensor& x, int64_t diagonal) {
  check<ShapeError>(x.rank() == 1 || x.rank() == 2, "diag: expected a vector or a matrix, got {}",
                    x.shape());
  const DiagonalParams params = {.offset = diagonal};
  if (x.rank() == 2) return clone(mica::diagonal(x, params));
  const int64_t n = x.size(0) + std::abs(diagonal);
  return diagonal_grad(x, {.diagonal = params, .shape = {n, n}});
}

Tensor trace(const Tensor& x) {
  check<ShapeError>(x.rank() == 2, "trace: expected a matrix, got {}", x.shape());
  return sum(diagonal(x));
}

Tensor atleast_1d(const Tensor& x) { return x.rank() == 0 ? reshape(x, {1}) : x; }

Tensor atleast_2d(const Tensor& x) { return x.rank() >= 2 ? x : unsqueeze(atleast_1d(x), 0); }

Tensor atleast_3d(const Tensor& x) { return x.rank() >= 3 ? x : unsqueeze(atleast_2d(x), -1); }

}  // namespace mica
