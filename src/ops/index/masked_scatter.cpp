#include "mica/ops/index/masked_scatter.h"

#include "mica/core/check.h"
#include "mica/op/function.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/scan/scan.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica {

Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source) {
  check<DTypeError>(mask.dtype() == DType::boolean && source.dtype() == x.dtype(),
                    "masked_scatter: expected a bool mask and a source of {}, got {} and {}",
                    x.dtype(), mask.dtype(), source.dtype());
  const Tensor flat = flatten(expand(mask, x.shape()));
  // Each masked element's number among the masked ones; that of others is not used.
  const Tensor at = maximum(sub(cumsum(flat, 0), 1), 0);
  return where(mask, reshape(index_select(flatten(source), 0, at), x.shape()), x);
}

Functions masked_scatter_functions() {
  return {{.name = "masked_scatter",
           .doc = "A copy of input with the elements of source, in row-major order, where mask "
                  "(bool), expanded to input's shape, holds. source has input's dtype.",
           .signatures = {{masked_scatter, {"input", "mask", "source"}}},
           .offer = kInPlaceToo}};
}

}  // namespace mica
