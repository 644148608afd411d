#include "mica/ops/loss/likelihood.h"

#include <cmath>
#include <numbers>

#include "mica/core/check.h"
#include "mica/op/autocast.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/embedding/embedding.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/loss/arguments.h"
#include "mica/ops/loss/functions.h"
#include "mica/ops/loss/loss.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica {
namespace {

/// var for an input: as it is, or with a last axis of 1 that it came without.
Tensor variance_of(const Tensor& input, const Tensor& var) {
  if (var.shape() == input.shape()) return var;
  check<ShapeError>(input.rank() >= 1, "gaussian_nll_loss: var must be {} as input, got {}",
                    input.shape(), var.shape());
  const Shape without(std::span(input.shape().begin(), input.shape().end() - 1));
  Shape with_one = without;
  with_one.push_back(1);
  check<ShapeError>(var.shape() == without || var.shape() == with_one,
                    "gaussian_nll_loss: var must be {}, {} or {}, got {}", input.shape(), with_one,
                    without, var.shape());
  return var.shape() == without ? unsqueeze(var, -1) : var;
}

}  // namespace

Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, const PoissonNLLOptions& o) {
  const ComputedIn precision(Precision::f32);
  check_alike("poisson_nll_loss", input, target);
  Tensor loss = o.log_input ? exp(input) - target * input : input - target * log(input + o.eps);
  if (o.full) {
    const Tensor large = where(gt(target, 1.0), target, 1.0);  // whose logarithm is finite
    const Tensor stirling = large * log(large) - large + 0.5 * log(2 * std::numbers::pi * large);
    loss = loss + where(gt(target, 1.0), stirling, 0.0);
  }
  return reduce_loss(loss, o.reduction);
}

Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var,
                         const GaussianNLLOptions& o) {
  const ComputedIn precision(Precision::f32);
  check_alike("gaussian_nll_loss", input, target);
  check(o.eps > 0, "gaussian_nll_loss: eps must be positive, got {}", o.eps);
  const Tensor given = variance_of(input, var);
  // A variance that is raised to eps keeps its gradient, as in PyTorch: it can grow again.
  const Tensor v = where(lt(given, o.eps), (given - given.detach()) + o.eps, given);
  Tensor loss = 0.5 * (log(v) + square(input - target) / v);
  if (o.full) loss = loss + 0.5 * std::log(2 * std::numbers::pi);
  return reduce_loss(loss, o.reduction);
}

Tensor multi_margin_loss(const Tensor& input, const Tensor& target, const MultiMarginOptions& o) {
  const ComputedIn precision(Precision::f32);
  check<DTypeError>(is_floating(input.dtype()),
                    "multi_margin_loss: expected a floating dtype, got {}", input.dtype());
  check<ShapeError>(input.rank() == 1 || input.rank() == 2,
                    "multi_margin_loss: input must be (N, C) or (C), got {}", input.shape());
  const Shape expected = input.rank() == 1 ? Shape{} : Shape{input.size(0)};
  check<ShapeError>(target.shape() == expected,
                    "multi_margin_loss: targets must be {} for an input of {}, got {}", expected,
                    input.shape(), target.shape());
  check(o.p == 1 || o.p == 2, "multi_margin_loss: p must be 1 or 2, got {}", o.p);
  const int64_t classes = input.size(input.rank() - 1);
  const Tensor score = take_along_axis(input, unsqueeze(target, -1), -1);
  const Tensor short_by = relu(input - score + o.margin);
  Tensor loss = where(eq(one_hot(target, classes), 1), 0.0, o.p == 1 ? short_by : square(short_by));
  loss = sum(loss, {-1}) / static_cast<double>(classes);
  if (o.weight.defined()) {
    check<ShapeError>(o.weight.shape() == Shape{classes},
                      "multi_margin_loss: weight must be {}, got {}", Shape{classes},
                      o.weight.shape());
    loss = loss * reshape(index_select(o.weight, 0, flatten(target, 0, -1)), target.shape());
  }
  return reduce_loss(loss, o.reduction);
}

Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target,
                                   const MultiLabelSoftMarginOptions& o) {
  const ComputedIn precision(Precision::f32);
  check_alike("multilabel_soft_margin_loss", input, target);
  check<ShapeError>(input.rank() >= 1, "multilabel_soft_margin_loss: input must be (…, C), got {}",
                    input.shape());
  const Tensor losses = binary_cross_entropy_with_logits(
      input, target, {.weight = o.weight, .reduction = Reduction::none});
  return reduce_loss(mean(losses, {-1}), o.reduction);
}

Tensor pairwise_distance(const Tensor& a, const Tensor& b, const PairwiseDistanceOptions& o) {
  const ComputedIn precision(Precision::f32);
  return norm(a - b + o.eps, o.p, {-1}, o.keepdim);
}

Functions likelihood_functions() {
  const auto poisson = [](const Tensor& x, const Tensor& target, bool log_input, bool full,
                          double eps, Reduction reduction) {
    return poisson_nll_loss(
        x, target, {.log_input = log_input, .full = full, .eps = eps, .reduction = reduction});
  };
  const auto gaussian = [](const Tensor& x, const Tensor& target, const Tensor& var, bool full,
                           double eps, Reduction reduction) {
    return gaussian_nll_loss(x, target, var, {.full = full, .eps = eps, .reduction = reduction});
  };
  const auto multi_margin = [](const Tensor& x, const Tensor& target, int64_t p, double margin,
                               const Tensor& weight, Reduction reduction) {
    return multi_margin_loss(x, target,
                             {.p = p, .margin = margin, .weight = weight, .reduction = reduction});
  };
  const auto multilabel = [](const Tensor& x, const Tensor& target, const Tensor& weight,
                             Reduction reduction) {
    return multilabel_soft_margin_loss(x, target, {.weight = weight, .reduction = reduction});
  };
  const auto distance = [](const Tensor& a, const Tensor& b, double p, double eps, bool keepdim) {
    return pairwise_distance(a, b, {.p = p, .eps = eps, .keepdim = keepdim});
  };
  const Parameter reduction = {"reduction", "mean"};
  return {
      loss_function(
          "poisson_nll_loss",
          "exp(input) - target * input, or input - target * log(input + eps) without log_input; "
          "full adds Stirling's approximation of log(target!) where target is above 1. target has "
          "input's shape; reduction 'mean' and 'sum' give 0-d, 'none' input's shape.",
          {poisson,
           {"input",
            "target",
            {"log_input", true},
            {"full", false},
            kKeywordOnly,
            {"eps", 1e-8},
            reduction}}),
      loss_function(
          "gaussian_nll_loss",
          "(log(var) + (input - target)^2 / var) / 2 with var at least eps, plus log(2 pi) / 2 "
          "with full. target has input's shape, var too, or with 1 for its last axis, or without "
          "that; reduction 'mean' and 'sum' give 0-d, 'none' input's shape.",
          {gaussian, {"input", "target", "var", {"full", false}, {"eps", 1e-6}, reduction}}),
      loss_function("multi_margin_loss",
                    "The sum over the classes i other than target of max(0, margin - input[target] "
                    "+ input[i])^p / C, times weight[target]. input is (N, C) or (C), target (N) "
                    "or 0-d of integers, weight (C), p 1 or 2; reduction 'mean' and 'sum' give "
                    "0-d, 'none' target's shape.",
                    {multi_margin,
                     {"input",
                      "target",
                      {"p", 1},
                      {"margin", 1.0},
                      {"weight", kNone},
                      kKeywordOnly,
                      reduction}}),
      loss_function(
          "multilabel_soft_margin_loss",
          "The mean over the last axis of binary_cross_entropy_with_logits(input, target) of (…, "
          "C), with weight (C) of each class; reduction 'mean' and 'sum' give 0-d, 'none' (…).",
          {multilabel, {"input", "target", {"weight", kNone}, kKeywordOnly, reduction}}),
      loss_function("pairwise_distance",
                    "The p-norm of x1 - x2 + eps along the last axis of (…, D), which is dropped, "
                    "or stays with a size of 1 with keepdim; shapes broadcast.",
                    {distance, {"x1", "x2", {"p", 2.0}, {"eps", 1e-6}, {"keepdim", false}}}),
  };
}

}  // namespace mica
