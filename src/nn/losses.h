#pragma once

#include <concepts>

#include "mica/nn/op_layer.h"
#include "mica/ops/cross_entropy/cross_entropy.h"
#include "mica/ops/ctc/ctc.h"
#include "mica/ops/loss/likelihood.h"
#include "mica/ops/loss/loss.h"

// Losses by PyTorch's names: functions of an input and a target that keep their options.
namespace mica::nn {

/// `CrossEntropyLoss({.label_smoothing = 0.1})(logits, target)`.
template <auto f, class Options>
class Loss {
 public:
  explicit Loss(const Options& o = {}) : options(o) {}

  template <std::derived_from<Tensor>... Inputs>
  Tensor operator()(const Inputs&... inputs) const {
    if constexpr (requires { f(inputs..., options); }) {
      return f(inputs..., options);
    } else {
      return f(inputs..., options.reduction);
    }
  }

  const Options options;
};

struct LossOptions {
  Reduction reduction = Reduction::mean;
};

struct HingeEmbeddingOptions {
  double margin = 1.0;
  Reduction reduction = Reduction::mean;
};

namespace function {

inline Tensor hinge_embedding(const Tensor& input, const Tensor& target,
                              const HingeEmbeddingOptions& o) {
  return hinge_embedding_loss(input, target, {o.margin, o.reduction});
}

}  // namespace function

/// Of scores and classes, or probabilities.
using CrossEntropyLoss = Loss<cross_entropy, CrossEntropyOptions>;
/// Of log-probabilities and classes.
using NLLLoss = Loss<nll_loss, NllOptions>;
/// The squared difference.
using MSELoss = Loss<mse_loss, LossOptions>;
/// The absolute difference.
using L1Loss = Loss<l1_loss, LossOptions>;
/// Squared near 0, else absolute.
using SmoothL1Loss = Loss<smooth_l1_loss, SmoothL1Options>;
/// The same, scaled by delta.
using HuberLoss = Loss<huber_loss, HuberOptions>;
/// Of probabilities and targets in [0, 1].
using BCELoss = Loss<binary_cross_entropy, BinaryCrossEntropyOptions>;
/// The same of scores.
using BCEWithLogitsLoss =
    Loss<binary_cross_entropy_with_logits, BinaryCrossEntropyWithLogitsOptions>;
/// The divergence of log-probabilities from a target.
using KLDivLoss = Loss<kl_div, KlDivOptions>;
/// log(1 + exp(-target * input)), targets 1 or -1.
using SoftMarginLoss = Loss<soft_margin_loss, LossOptions>;
/// Of distances, targets 1 or -1.
using HingeEmbeddingLoss = Loss<function::hinge_embedding, HingeEmbeddingOptions>;
/// Of rates and counts.
using PoissonNLLLoss = Loss<poisson_nll_loss, PoissonNLLOptions>;
/// The margin of the right class over the others.
using MultiMarginLoss = Loss<multi_margin_loss, MultiMarginOptions>;
/// Of scores and several labels each.
using MultiLabelSoftMarginLoss = Loss<multilabel_soft_margin_loss, MultiLabelSoftMarginOptions>;
/// Of an input, a target and the variance.
using GaussianNLLLoss = Loss<gaussian_nll_loss, GaussianNLLOptions>;
// Of two inputs and a target, and of anchor, positive and negative.
/// Whether two vectors point alike, targets 1 or -1.
using CosineEmbeddingLoss = Loss<cosine_embedding_loss, MarginOptions>;
/// Which of two is larger, targets 1 or -1.
using MarginRankingLoss = Loss<margin_ranking_loss, MarginOptions>;
/// The anchor nearer to the positive than to the negative.
using TripletMarginLoss = Loss<triplet_margin_loss, TripletMarginOptions>;

/// Of log-probabilities, targets and the lengths of both.
using CTCLoss = Loss<ctc_loss, CtcOptions>;

// No losses, but called alike: `CosineSimilarity({.axis = 1})(a, b)`.
/// The cosine between vectors along an axis.
using CosineSimilarity = Loss<cosine_similarity, CosineOptions>;
/// The norm of the difference.
using PairwiseDistance = Loss<pairwise_distance, PairwiseDistanceOptions>;

}  // namespace mica::nn
