#include "mica/ops/loss/loss.h"

#include "mica/core/check.h"
#include "mica/op/autocast.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/loss/arguments.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/where/where.h"

namespace mica {

Tensor reduce_loss(const Tensor& losses, Reduction reduction) {
  switch (reduction) {
    case Reduction::mean:
      return mean(losses);
    case Reduction::sum:
      return sum(losses);
    case Reduction::none:
      break;
  }
  return losses;
}

Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  const ComputedIn precision(Precision::f32);
  check_alike("mse_loss", input, target);
  return reduce_loss(square(input - target), reduction);
}

Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction) {
  const ComputedIn precision(Precision::f32);
  check_alike("l1_loss", input, target);
  return reduce_loss(abs(input - target), reduction);
}

Tensor smooth_l1_loss(const Tensor& input, const Tensor& target, const SmoothL1Options& options) {
  const ComputedIn precision(Precision::f32);
  check_alike("smooth_l1_loss", input, target);
  check(options.beta >= 0, "smooth_l1_loss: beta must not be negative, got {}", options.beta);
  if (options.beta == 0) return l1_loss(input, target, options.reduction);
  const Tensor difference = input - target;
  const Tensor distance = abs(difference);
  return reduce_loss(where(lt(distance, options.beta), square(difference) * (0.5 / options.beta),
                           distance - 0.5 * options.beta),
                     options.reduction);
}

Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberOptions& options) {
  const ComputedIn precision(Precision::f32);
  check_alike("huber_loss", input, target);
  check(options.delta > 0, "huber_loss: delta must be positive, got {}", options.delta);
  const Tensor difference = input - target;
  const Tensor distance = abs(difference);
  return reduce_loss(where(le(distance, options.delta), square(difference) * 0.5,
                           (distance - 0.5 * options.delta) * options.delta),
                     options.reduction);
}

Tensor kl_div(const Tensor& input, const Tensor& target, const KlDivOptions& options) {
  const ComputedIn precision(Precision::f32);
  check_alike("kl_div", input, target);
  if (options.log_target) return reduce_loss(exp(target) * (target - input), options.reduction);
  // 0 log(0) is 0, and so is its gradient.
  const Tensor logarithm = log(where(gt(target, 0.0), target, 1.0));
  return reduce_loss(target * (logarithm - input), options.reduction);
}

}  // namespace mica
