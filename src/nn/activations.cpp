#include "mica/nn/activations.h"

#include "mica/core/check.h"
#include "mica/nn/init.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/embedding/embedding.h"
#include "mica/ops/random/random.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"

namespace mica::nn {
namespace function {

Tensor celu(const Tensor& x, const CELUOptions& o) {
  check(o.alpha != 0, "celu: alpha must not be 0");
  // exp sees no positive x, which could overflow.
  return relu(x) + o.alpha * expm1(clamp(x, {.high = 0}) / o.alpha);
}

Tensor glu(const Tensor& x, const GLUOptions& o) {
  const int axis = normalize_axis(o.axis, x.rank(), "glu");
  check<ShapeError>(x.size(axis) % 2 == 0, "glu: axis {} must have an even size, got {}", o.axis,
                    x.shape());
  const int64_t half = x.size(axis) / 2;
  return narrow(x, axis, 0, half) * sigmoid(narrow(x, axis, half, half));
}

// A comparison with NaN is false and so chooses x: NaN stays.

Tensor hardshrink(const Tensor& x, const ShrinkOptions& o) {
  return where(le(abs(x), o.lambd), 0.0, x);
}

Tensor softshrink(const Tensor& x, const ShrinkOptions& o) {
  check(o.lambd >= 0, "softshrink: lambd must not be negative, got {}", o.lambd);
  return x - clamp(x, -o.lambd, o.lambd);
}

Tensor threshold(const Tensor& x, const ThresholdOptions& o) {
  return where(le(x, o.threshold), o.value, x);
}

Tensor softmax2d(const Tensor& x) {
  check<ShapeError>(x.rank() == 3 || x.rank() == 4,
                    "softmax2d: expected (N, C, H, W) or (C, H, W), got {}", x.shape());
  return softmax(x, -3);
}

Tensor gumbel_softmax(const Tensor& logits, const GumbelSoftmaxOptions& o) {
  check(o.tau > 0, "gumbel_softmax: tau must be positive, got {}", o.tau);
  const Tensor noise = -log(-log(uniform_like(logits.detach(), 0, 1)));
  const Tensor scores = (logits + noise) / o.tau;
  if (!o.hard) return softmax(scores, o.axis);
  const Tensor soft = softmax(scores, o.axis);
  const int axis = normalize_axis(o.axis, soft.rank(), "gumbel_softmax");
  const Tensor chosen = one_hot(argmax(soft.detach(), axis), soft.size(axis));
  return cast(movedim(chosen, {-1}, {axis}), soft.dtype()) + (soft - soft.detach());
}

}  // namespace function

PReLUImpl::PReLUImpl(const PReLUOptions& o) : options(o) {
  check(o.parameters >= 1, "nn::PReLU: parameters must be at least 1, got {}", o.parameters);
  weight = parameter("weight", {o.parameters}, init::constant(o.init));
}

}  // namespace mica::nn
