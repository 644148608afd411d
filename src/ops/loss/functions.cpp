#include "mica/ops/loss/functions.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/loss/loss.h"

namespace mica {
namespace {

enum class KlReduction : uint8_t { mean, sum, none, batchmean };

Tensor kl_div_over(const Tensor& x, const Tensor& target, KlReduction reduction, bool log_target) {
  // The sum of each row, as mathematics has it, averaged over the rows.
  const bool by_row = reduction == KlReduction::batchmean;
  const Reduction over = by_row ? Reduction::sum : static_cast<Reduction>(reduction);
  const Tensor loss = kl_div(x, target, {.log_target = log_target, .reduction = over});
  return by_row && x.rank() > 0 ? div(loss, static_cast<double>(x.shape()[0])) : loss;
}

}  // namespace

template <>
struct Words<KlReduction> {
  static constexpr std::pair<const char*, KlReduction> all[] = {
      {"mean", KlReduction::mean},
      {"sum", KlReduction::sum},
      {"none", KlReduction::none},
      {"batchmean", KlReduction::batchmean}};
};

Functions loss_functions() {
  const auto plain = [](const char* name, Tensor (*f)(const Tensor&, const Tensor&, Reduction),
                        const char* doc) {
    return loss_function(name, doc, {f, {"input", "target", kKeywordOnly, {"reduction", "mean"}}});
  };
  const auto smooth_l1 = [](const Tensor& x, const Tensor& target, Reduction reduction,
                            double beta) {
    return smooth_l1_loss(x, target, {.beta = beta, .reduction = reduction});
  };
  const auto huber = [](const Tensor& x, const Tensor& target, Reduction reduction, double delta) {
    return huber_loss(x, target, {.delta = delta, .reduction = reduction});
  };
  const auto bce = [](const Tensor& x, const Tensor& target, const Tensor& weight,
                      Reduction reduction) {
    return binary_cross_entropy(x, target, {.weight = weight, .reduction = reduction});
  };
  const auto bce_with_logits = [](const Tensor& x, const Tensor& target, const Tensor& weight,
                                  Reduction reduction, const Tensor& pos_weight) {
    return binary_cross_entropy_with_logits(
        x, target, {.weight = weight, .pos_weight = pos_weight, .reduction = reduction});
  };
  const auto nll = [](const Tensor& x, const Tensor& target, const Tensor& weight,
                      int64_t ignore_index, Reduction reduction) {
    return nll_loss(x, target,
                    {.weight = weight, .ignore_index = ignore_index, .reduction = reduction});
  };
  const auto similarity = [](const Tensor& a, const Tensor& b, int64_t dim, double eps) {
    return cosine_similarity(a, b, {.axis = dim, .eps = eps});
  };
  const auto cosine_embedding = [](const Tensor& a, const Tensor& b, const Tensor& target,
                                   double margin, Reduction reduction) {
    return cosine_embedding_loss(a, b, target, {.margin = margin, .reduction = reduction});
  };
  const auto margin_ranking = [](const Tensor& a, const Tensor& b, const Tensor& target,
                                 double margin, Reduction reduction) {
    return margin_ranking_loss(a, b, target, {.margin = margin, .reduction = reduction});
  };
  const auto hinge_embedding = [](const Tensor& x, const Tensor& target, double margin,
                                  Reduction reduction) {
    return hinge_embedding_loss(x, target, {.margin = margin, .reduction = reduction});
  };
  const auto triplet_margin = [](const Tensor& anchor, const Tensor& positive,
                                 const Tensor& negative, double margin, double p, double eps,
                                 bool swap, Reduction reduction) {
    return triplet_margin_loss(
        anchor, positive, negative,
        {.margin = margin, .p = p, .eps = eps, .swap = swap, .reduction = reduction});
  };
  const Parameter reduction = {"reduction", "mean"};
  return {
      plain("mse_loss", mse_loss,
            "(input - target)^2. target has input's shape; reduction 'mean' and 'sum' give 0-d, "
            "'none' input's shape."),
      plain("l1_loss", l1_loss,
            "|input - target|. target has input's shape; reduction 'mean' and 'sum' give 0-d, "
            "'none' input's shape."),
      plain("soft_margin_loss", soft_margin_loss,
            "log(1 + exp(-target input)), with targets of 1 and -1 in input's shape; reduction "
            "'mean' and 'sum' give 0-d, 'none' input's shape."),
      loss_function(
          "smooth_l1_loss",
          "With d = |input - target|: d^2 / (2 beta) where d < beta, else d - beta / 2. target has "
          "input's shape; reduction 'mean' and 'sum' give 0-d, 'none' input's shape.",
          {smooth_l1, {"input", "target", kKeywordOnly, reduction, {"beta", 1.0}}}),
      loss_function(
          "huber_loss",
          "With d = |input - target|: d^2 / 2 where d <= delta, else delta (d - delta / 2). target "
          "has input's shape; reduction 'mean' and 'sum' give 0-d, 'none' input's shape.",
          {huber, {"input", "target", kKeywordOnly, reduction, {"delta", 1.0}}}),
      loss_function("binary_cross_entropy",
                    "-(target log(input) + (1 - target) log(1 - input)) of probabilities; "
                    "logarithms are at least -100. target has input's shape, weight broadcasts; "
                    "reduction 'mean' and 'sum' give 0-d, 'none' input's shape.",
                    {bce, {"input", "target", {"weight", kNone}, kKeywordOnly, reduction}}),
      loss_function(
          "binary_cross_entropy_with_logits",
          "binary_cross_entropy of sigmoid(input), without overflow for inputs of any size. target "
          "has input's shape; weight, and pos_weight for targets of 1, broadcast; reduction 'mean' "
          "and 'sum' give 0-d, 'none' input's shape.",
          {bce_with_logits,
           {"input", "target", {"weight", kNone}, kKeywordOnly, reduction, {"pos_weight", kNone}}}),
      loss_function(
          "kl_div",
          "target (log(target) - input), where input holds log-probabilities, and target too with "
          "log_target. target has input's shape; reduction 'mean', 'sum' and 'batchmean' (the sum "
          "divided by N) give 0-d, 'none' input's shape.",
          {kl_div_over, {"input", "target", kKeywordOnly, reduction, {"log_target", false}}}),
      loss_function(
          "nll_loss",
          "-input[target] of log-probabilities (N, C, …) or (C) and classes (N, …) or 0-d of "
          "integers, of which ignore_index counts for nothing; weight (C) is of each class and "
          "weights the mean. reduction 'mean' and 'sum' give 0-d, 'none' target's shape.",
          {nll,
           {"input",
            "target",
            {"weight", kNone},
            kKeywordOnly,
            {"ignore_index", -100},
            reduction}}),
      loss_function("cosine_similarity",
                    "The cosine of the angle between the vectors of x1 and x2 along dim, which is "
                    "dropped; shapes broadcast. A vector counts with a length of at least eps.",
                    {similarity, {"x1", "x2", {"dim", 1}, {"eps", 1e-8}}}),
      loss_function("cosine_embedding_loss",
                    "1 - cos(input1, input2) where target is 1, max(0, cos(input1, input2) - "
                    "margin) where it is -1. The inputs are (N, D) or (D), target is (N) or 0-d; "
                    "reduction 'mean' and 'sum' give 0-d, 'none' target's shape.",
                    {cosine_embedding,
                     {"input1", "input2", "target", {"margin", 0.0}, kKeywordOnly, reduction}}),
      loss_function("margin_ranking_loss",
                    "max(0, margin - target (input1 - input2)), with targets of 1 and -1; all of "
                    "one shape. reduction 'mean' and 'sum' give 0-d, 'none' that shape.",
                    {margin_ranking,
                     {"input1", "input2", "target", {"margin", 0.0}, kKeywordOnly, reduction}}),
      loss_function(
          "hinge_embedding_loss",
          "input where target is 1, max(0, margin - input) where it is -1. target has input's "
          "shape; reduction 'mean' and 'sum' give 0-d, 'none' input's shape.",
          {hinge_embedding, {"input", "target", {"margin", 1.0}, kKeywordOnly, reduction}}),
      loss_function(
          "triplet_margin_loss",
          "max(0, |anchor - positive| - |anchor - negative| + margin), p-norms along the last axis "
          "of (…, D), with eps added to each difference; swap takes the lesser of the negative's "
          "distances to anchor and positive. reduction 'mean' and 'sum' give 0-d, 'none' (…).",
          {triplet_margin,
           {"anchor",
            "positive",
            "negative",
            {"margin", 1.0},
            {"p", 2.0},
            {"eps", 1e-6},
            {"swap", false},
            kKeywordOnly,
            reduction}}),
  };
}

}  // namespace mica
