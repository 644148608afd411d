#include "mica/ops/activation/compositions.h"

#include "mica/core/check.h"
#include "mica/op/autocast.h"
#include "mica/op/function.h"
#include "mica/ops/activation/activation.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/embedding/embedding.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/random/random.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/softmax/softmax.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica {

Tensor relu6(const Tensor& x) { return clipped_relu(x, 6.0); }
Tensor softsign(const Tensor& x) { return x / (abs(x) + 1.0); }
Tensor tanhshrink(const Tensor& x) { return x - tanh(x); }
Tensor softmin(const Tensor& x, int64_t axis) { return softmax(-x, axis); }
Tensor hardtanh(const Tensor& x, double low, double high) {
  return clamp(x, {.low = low, .high = high, .open = true});
}

Tensor celu(const Tensor& x, double alpha) {
  check(alpha != 0, "celu: alpha must not be 0");
  // exp sees no positive x, which could overflow.
  return relu(x) + alpha * expm1(clamp(x, {.high = 0}) / alpha);
}

Tensor glu(const Tensor& x, int64_t axis) {
  check<ShapeError>(x.size(normalize_axis(axis, x.rank(), "glu")) % 2 == 0,
                    "glu: axis {} must have an even size, got {}", axis, x.shape());
  const int64_t half = x.size(axis) / 2;
  return narrow(x, axis, 0, half) * sigmoid(narrow(x, axis, half, half));
}

// A comparison with NaN is false and so chooses x: NaN stays.

Tensor hardshrink(const Tensor& x, double lambd) { return where(le(abs(x), lambd), 0.0, x); }

Tensor softshrink(const Tensor& x, double lambd) {
  check(lambd >= 0, "softshrink: lambd must not be negative, got {}", lambd);
  return x - clamp(x, -lambd, lambd);
}

Tensor threshold(const Tensor& x, double limit, double value) {
  return where(le(x, limit), value, x);
}

Tensor gumbel_softmax(const Tensor& logits, const GumbelSoftmaxOptions& o) {
  const ComputedIn precision(Precision::f32);
  check(o.tau > 0, "gumbel_softmax: tau must be positive, got {}", o.tau);
  const Tensor noise = -log(-log(uniform_like(logits.detach(), 0, 1)));
  const Tensor scores = (logits + noise) / o.tau;
  if (!o.hard) return softmax(scores, o.axis);
  const Tensor soft = softmax(scores, o.axis);
  const int axis = normalize_axis(o.axis, soft.rank(), "gumbel_softmax");
  const Tensor chosen = one_hot(argmax(soft.detach(), axis), soft.size(axis));
  return cast(movedim(chosen, {-1}, {axis}), soft.dtype()) + (soft - soft.detach());
}

Functions activation_composition_functions() {
  const auto gumbel = [](const Tensor& logits, double tau, bool hard, int64_t dim) {
    return gumbel_softmax(logits, {.tau = tau, .hard = hard, .axis = dim});
  };
  return {
      unary("softsign", softsign, "input / (1 + |input|) of each element; integers give float32.",
            kFunctional),
      unary("tanhshrink", tanhshrink, "input - tanh(input) of each element; integers give float32.",
            kFunctional),
      {.name = "relu6",
       .doc = "input in [0, 6], in its dtype; NaN stays.",
       .signatures = {{relu6, {"input", ignored_inplace()}}},
       .offer = kFunctional},
      {.name = "hardtanh",
       .doc = "input in [min_val, max_val], in its dtype; NaN stays.",
       .signatures = {{hardtanh,
                       {"input", {"min_val", -1.0}, {"max_val", 1.0}, ignored_inplace()}}},
       .offer = kFunctional},
      {.name = "softmin",
       .doc = "softmax(-input) along dim, input's shape.",
       .signatures = {{softmin, {"input", "dim"}}},
       .offer = kFunctional,
       .precision = Precision::f32},
      {.name = "celu",
       .doc = "input where it is positive, else alpha * (exp(input / alpha) - 1); of a floating "
              "dtype.",
       .signatures = {{celu, {"input", {"alpha", 1.0}, ignored_inplace()}}},
       .offer = kFunctional},
      {.name = "hardshrink",
       .doc = "0 where |input| <= lambd, else input, in its dtype; NaN stays.",
       .signatures = {{hardshrink, {"input", {"lambd", 0.5}}}},
       .offer = kFunctional},
      {.name = "softshrink",
       .doc = "input - lambd above lambd, input + lambd below -lambd, else 0, in input's dtype.",
       .signatures = {{softshrink, {"input", {"lambd", 0.5}}}},
       .offer = kFunctional},
      {.name = "threshold",
       .doc = "input where it is above threshold, else value, in input's dtype; NaN stays.",
       .signatures = {{threshold, {"input", "threshold", "value", ignored_inplace()}}},
       .offer = kFunctional},
      {.name = "glu",
       .doc = "a * sigmoid(b) of the halves a and b of input (…, 2 n, …) along dim: (…, n, …).",
       .signatures = {{glu, {"input", {"dim", -1}}}},
       .offer = kFunctional},
      {.name = "gumbel_softmax",
       .doc = "softmax((logits + g) / tau) along dim, logits' shape, where g is drawn from "
              "Gumbel's distribution; with hard, 1 for the largest and 0 for the others, with the "
              "gradient of the soft values.",
       .signatures = {{gumbel,
                       {"logits", {"tau", 1.0}, {"hard", false}, kKeywordOnly, {"dim", -1}}}},
       .offer = kFunctional,
       .precision = Precision::f32},
  };
}

}  // namespace mica
