#include "mica/ops/reduce/normalize.h"

#include "mica/op/autocast.h"
#include "mica/op/function.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/where/where.h"

namespace mica {

Tensor normalize(const Tensor& x, const NormalizeOptions& o) {
  const ComputedIn precision(Precision::f32);
  return x / clamp(norm(x, o.p, {o.axis}, true), {.low = o.eps});
}

Functions normalize_functions() {
  const auto along = [](const Tensor& x, double p, int64_t dim, double eps) {
    return normalize(x, {.p = p, .axis = dim, .eps = eps});
  };
  return {
      {.name = "normalize",
       .doc = "input divided by its p-norm along dim, or by eps where that is less; input's shape.",
       .signatures = {{along, {"input", {"p", 2.0}, {"dim", 1}, {"eps", 1e-12}}}},
       .offer = kFunctional,
       .precision = Precision::f32}};
}

}  // namespace mica
