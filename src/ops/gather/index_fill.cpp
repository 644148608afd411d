#include "mica/ops/gather/index_fill.h"

#include "mica/core/check.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/gather/gather.h"

namespace mica {

Tensor index_fill(const Tensor& x, int64_t axis, const Tensor& index, Number value) {
  check<ShapeError>(index.rank() == 1, "index_fill: index must be (n), got {}", index.shape());
  Shape shape = x.shape();
  shape[normalize_axis(axis, x.rank(), "index_fill")] = index.size(0);
  return index_copy(x, axis, index, full(shape, value, {x.dtype(), x.device()}));
}

}  // namespace mica
