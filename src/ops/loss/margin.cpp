#include "mica/core/check.h"
#include "mica/op/autocast.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/loss/arguments.h"
#include "mica/ops/loss/loss.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/where/where.h"

namespace mica {
namespace {

/// |d| along the last axis.
Tensor length(const Tensor& d, double p) {
  if (p == 1) return sum(abs(d), {-1});
  if (p == 2) return sqrt(sum(square(d), {-1}));
  return pow(sum(pow(abs(d), p), {-1}), 1 / p);
}

void check_one_shape(const char* op, const Tensor& a, const Tensor& b) {
  check<DTypeError>(is_floating(a.dtype()), "{}: expected a floating dtype, got {}", op, a.dtype());
  check<ShapeError>(a.shape() == b.shape(), "{}: inputs must have one shape, got {} and {}", op,
                    a.shape(), b.shape());
}

}  // namespace

Tensor cosine_similarity(const Tensor& a, const Tensor& b, const CosineOptions& options) {
  const ComputedIn precision(Precision::f32);
  check<DTypeError>(is_floating(a.dtype()) && is_floating(b.dtype()),
                    "cosine_similarity: expected floating dtypes, got {} and {}", a.dtype(),
                    b.dtype());
  const Shape shape = broadcast_shapes(a.shape(), b.shape(), "cosine_similarity");
  // Counted from the end: a and b may have fewer axes than both together.
  const int64_t axis =
      normalize_axis(options.axis, shape.rank(), "cosine_similarity") - shape.rank();
  const auto inverse_length = [&](const Tensor& x) {
    return rsqrt(maximum(sum(square(x), {axis}, true), options.eps * options.eps));
  };
  return sum((a * inverse_length(a)) * (b * inverse_length(b)), {axis});
}

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                             const MarginOptions& options) {
  const ComputedIn precision(Precision::f32);
  constexpr double kEps = 1e-12;
  check_one_shape("cosine_embedding_loss", a, b);
  check<ShapeError>(a.rank() == 1 || a.rank() == 2,
                    "cosine_embedding_loss: inputs must be [N, D] or [D], got {}", a.shape());
  const Shape expected = a.rank() == 1 ? Shape{} : Shape{a.shape()[0]};
  check<ShapeError>(target.shape() == expected,
                    "cosine_embedding_loss: targets must be {} for inputs of {}, got {}", expected,
                    a.shape(), target.shape());
  const Tensor lengths = (sum(square(a), {-1}) + kEps) * (sum(square(b), {-1}) + kEps);
  const Tensor cosine = sum(a * b, {-1}) * rsqrt(lengths);
  return reduce_loss(where(gt(target, 0.0), 1.0 - cosine, relu(cosine - options.margin)),
                     options.reduction);
}

Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                           const MarginOptions& options) {
  const ComputedIn precision(Precision::f32);
  check_one_shape("margin_ranking_loss", a, b);
  check_alike("margin_ranking_loss", a, target);
  return reduce_loss(relu((b - a) * target + options.margin), options.reduction);
}

Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target,
                            const MarginOptions& options) {
  const ComputedIn precision(Precision::f32);
  check_alike("hinge_embedding_loss", input, target);
  return reduce_loss(where(gt(target, 0.0), input, relu(options.margin - input)),
                     options.reduction);
}

Tensor soft_margin_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  const ComputedIn precision(Precision::f32);
  check_alike("soft_margin_loss", input, target);
  // log(1 + exp(-z)) is the binary cross entropy of z for a target of 1.
  const Tensor z = input * target;
  return binary_cross_entropy_with_logits(z, ones_like(z), {.reduction = reduction});
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options) {
  const ComputedIn precision(Precision::f32);
  check_one_shape("triplet_margin_loss", anchor, positive);
  check_one_shape("triplet_margin_loss", anchor, negative);
  check<ShapeError>(anchor.rank() >= 1, "triplet_margin_loss: inputs must be [N, D] or [D], got {}",
                    anchor.shape());
  check(options.p > 0, "triplet_margin_loss: p must be positive, got {}", options.p);
  const auto distance = [&](const Tensor& a, const Tensor& b) {
    return length(a - b + options.eps, options.p);
  };
  Tensor far = distance(anchor, negative);
  if (options.swap) far = minimum(far, distance(positive, negative));
  return reduce_loss(relu(distance(anchor, positive) - far + options.margin), options.reduction);
}

}  // namespace mica
