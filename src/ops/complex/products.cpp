#include "mica/ops/complex/products.h"

#include "mica/ops/complex/complex.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/flip/flip.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/reduce/axes.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

Tensor part_of(const Tensor& x, int64_t axis, int64_t begin, int64_t end) {
  return slice(x, axis, begin, end);
}

/// Along one axis, which stays with a size of 1.
Tensor product_along(Tensor x, int64_t axis) {
  int64_t n = x.size(static_cast<int>(axis));
  if (n == 0) {
    Shape shape = x.shape();
    shape[static_cast<int>(axis)] = 1;
    return ones(shape, {x.dtype(), x.device()});
  }
  for (; n > 1; n = x.size(static_cast<int>(axis))) {
    const int64_t half = n / 2;
    const Tensor pairs = mul(part_of(x, axis, 0, half), part_of(x, axis, half, 2 * half));
    x = n % 2 == 0 ? pairs : concat({pairs, part_of(x, axis, n - 1, n)}, axis);
  }
  return x;
}

}  // namespace

Tensor complex_matmul(const Tensor& a, const Tensor& b) {
  const DType t = promote(a.dtype(), b.dtype());
  const DType part = real_dtype(t);
  if (!is_complex(a.dtype()))
    return by_parts(cast(b, t), [&](const Tensor& y) { return matmul(cast(a, part), y); });
  if (!is_complex(b.dtype()))
    return by_parts(cast(a, t), [&](const Tensor& x) { return matmul(x, cast(b, part)); });
  // One real product has all four of the parts' in its quarters.
  const Tensor x = cast(a, t);
  const Tensor y = cast(b, t);
  const int64_t m = x.size(-2);
  const int64_t n = y.size(-1);
  const Tensor all = matmul(concat({real(x), imag(x)}, -2), concat({real(y), imag(y)}, -1));
  const Tensor upper = slice(all, -2, 0, m);
  const Tensor lower = slice(all, -2, m, 2 * m);
  return complex(sub(slice(upper, -1, 0, n), slice(lower, -1, n, 2 * n)),
                 add(slice(upper, -1, n, 2 * n), slice(lower, -1, 0, n)));
}

Tensor complex_prod(const Tensor& x, const ReduceParams& params) {
  Tensor product = x;
  for (const int64_t axis : params.axes) product = product_along(product, axis);
  return reshape(product, reduced_shape(x.shape(), params.axes, params.keepdim));
}

Tensor complex_cumprod(const Tensor& x, const ScanParams& params) {
  const int64_t axis = params.axis;
  const int64_t n = x.size(static_cast<int>(axis));
  Tensor y = params.reverse ? flip(x, {axis}) : x;
  if (params.exclusive && n > 0) {
    const Tensor first = ones_like(part_of(y, axis, 0, 1));
    y = concat({first, part_of(y, axis, 0, n - 1)}, axis);
  }
  for (int64_t step = 1; step < n; step *= 2)
    y = concat(
        {part_of(y, axis, 0, step), mul(part_of(y, axis, step, n), part_of(y, axis, 0, n - step))},
        axis);
  return params.reverse ? flip(y, {axis}) : y;
}

}  // namespace mica
