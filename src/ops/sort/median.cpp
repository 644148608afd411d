#include "mica/ops/sort/median.h"

#include "mica/core/check.h"
#include "mica/op/function.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica {

Tensor median(const Tensor& x) { return median(flatten(x), 0).values; }

Sorted median(const Tensor& x, int64_t axis, bool keepdim) {
  if (x.rank() == 0) {
    normalize_axis(axis, 1, "median");
    return median(flatten(x), 0);
  }
  const int a = normalize_axis(axis, x.rank(), "median");
  const int64_t n = x.size(a);
  check<ShapeError>(n > 0, "median: axis {} of {} has no elements", a, x.shape());
  const Sorted sorted = sort(x.detach(), a);
  const Tensor middle = narrow(sorted.indices, a, (n - 1) / 2, 1);
  // NaN is sorted to the end.
  const Tensor last = narrow(sorted.indices, a, n - 1, 1);
  const Tensor at = where(isnan(narrow(sorted.values, a, n - 1, 1)), last, middle);
  const Tensor values = gather(x, a, at);
  return keepdim ? Sorted{values, at} : Sorted{squeeze(values, {a}), squeeze(at, {a})};
}

Functions median_functions() {
  return {{.name = "median",
           .doc = "median(input): the middle value, 0-d. median(input, dim): (values, indices) "
                  "along dim. Of an even number of elements it is the lower one; NaN wins.",
           .signatures = {{static_cast<Tensor (*)(const Tensor&)>(median), {"input"}},
                          {overload<const Tensor&, int64_t, bool>(median),
                           {"input", "dim", {"keepdim", false}}}}}};
}

}  // namespace mica
