#include "mica/ops/random/multinomial.h"

#include "mica/core/check.h"
#include "mica/op/function.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/random/random.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/scan/scan.h"
#include "mica/ops/sort/sort.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

/// Uniform in [0, 1), of 24 bits: in f64 their products with a sum stay below it.
Tensor draws(const Shape& shape, Device device) {
  return cast(uniform(shape, 0, 1, {DType::f32, device}), DType::f64);
}

void check_weights(const Tensor& weights, int64_t distinct) {
  const Tensor usable = logical_and(isfinite(weights), ge(weights, 0.0));
  check(all(usable).item() != 0, "multinomial: weights must be finite and at least 0");
  const Tensor least = min(count_nonzero(weights, {-1}));
  check(least.item() >= static_cast<double>(distinct),
        "multinomial: a row must have at least {} weights above 0, got {}", distinct, least.item());
}

}  // namespace

Tensor multinomial(const Tensor& weights, int64_t samples, bool replacement) {
  check<DTypeError>(is_floating(weights.dtype()), "multinomial: expected a floating dtype, got {}",
                    weights.dtype());
  check<ShapeError>(weights.rank() == 1 || weights.rank() == 2,
                    "multinomial: expected weights (n) or (rows, n), got {}", weights.shape());
  const int64_t n = weights.shape().back();
  check<ShapeError>(samples > 0 && (replacement || samples <= n),
                    "multinomial: cannot draw {} of {} without replacement", samples, n);
  // A captured graph does not look at values.
  if (!weights.is_traced() && weights.numel() > 0)
    check_weights(weights, replacement ? 1 : samples);
  const Tensor p = cast(weights.detach(), DType::f64);
  if (!replacement) {
    // The largest of log p + Gumbel noise are a draw without replacement.
    const Tensor noise = neg(log(neg(log(draws(p.shape(), p.device())))));
    return topk(add(log(p), noise), samples).indices;
  }
  const Tensor sums = cumsum(p, -1);
  Shape shape = p.shape();
  shape[shape.rank() - 1] = samples;
  const Tensor total = narrow(sums, -1, n - 1, 1);
  return searchsorted(sums, mul(draws(shape, p.device()), total), true);
}

Functions multinomial_functions() {
  return {{.name = "multinomial",
           .doc = "num_samples indices (int64) for each row of weights, input (n) or (rows, n) of "
                  "a floating dtype, each with its probability; the weights need not add up to 1. "
                  "Without replacement no index comes twice.",
           .signatures = {{multinomial, {"input", "num_samples", {"replacement", false}}}}}};
}

}  // namespace mica
