#include "mica/ops/scan/diff.h"

#include <algorithm>

#include "mica/core/check.h"
#include "mica/op/function.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/view/view.h"

namespace mica {

Tensor diff(const Tensor& x, int64_t n, int64_t axis, const Tensor& prepend, const Tensor& append) {
  check<ShapeError>(x.rank() > 0, "diff: expected at least one axis, got {}", x.shape());
  check(n >= 0, "diff: n must be at least 0, got {}", n);
  const int a = normalize_axis(axis, x.rank(), "diff");
  Tensors parts;
  for (const Tensor& part : {prepend, x, append})
    if (part.defined()) parts.push_back(part);
  Tensor y = parts.size() == 1 ? x : concat(parts, a);
  for (; n > 0 && y.size(a) > 0; --n) {
    const int64_t rest = y.size(a) - 1;
    const Tensor after = narrow(y, a, 1, rest);
    const Tensor before = narrow(y, a, 0, rest);
    y = y.dtype() == DType::boolean ? ne(after, before) : sub(after, before);
  }
  return y;
}

Functions diff_functions() {
  return {{.name = "diff",
           .doc = "input[i + 1] - input[i] along dim, n times over; where bools differ. prepend "
                  "and append are joined to input along dim first.",
           .signatures = {
               {diff, {"input", {"n", 1}, {"dim", -1}, {"prepend", kNone}, {"append", kNone}}}}}};
}

}  // namespace mica
