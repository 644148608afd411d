#pragma once

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

  template <std::same_as<Tensor>... Inputs>
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

using CrossEntropyLoss = Loss<cross_entropy, CrossEntropyOptions>;
using NLLLoss = Loss<nll_loss, NllOptions>;
using MSELoss = Loss<mse_loss, LossOptions>;
using L1Loss = Loss<l1_loss, LossOptions>;
using SmoothL1Loss = Loss<smooth_l1_loss, SmoothL1Options>;
using HuberLoss = Loss<huber_loss, HuberOptions>;
using BCELoss = Loss<binary_cross_entropy, BinaryCrossEntropyOptions>;
using BCEWithLogitsLoss =
    Loss<binary_cross_entropy_with_logits, BinaryCrossEntropyWithLogitsOptions>;
using KLDivLoss = Loss<kl_div, KlDivOptions>;
using SoftMarginLoss = Loss<soft_margin_loss, LossOptions>;
using HingeEmbeddingLoss = Loss<function::hinge_embedding, HingeEmbeddingOptions>;
using PoissonNLLLoss = Loss<poisson_nll_loss, PoissonNLLOptions>;
using MultiMarginLoss = Loss<multi_margin_loss, MultiMarginOptions>;
using MultiLabelSoftMarginLoss = Loss<multilabel_soft_margin_loss, MultiLabelSoftMarginOptions>;
/// Of an input, a target and the variance.
using GaussianNLLLoss = Loss<gaussian_nll_loss, GaussianNLLOptions>;
// Of two inputs and a target, and of anchor, positive and negative.
using CosineEmbeddingLoss = Loss<cosine_embedding_loss, MarginOptions>;
using MarginRankingLoss = Loss<margin_ranking_loss, MarginOptions>;
using TripletMarginLoss = Loss<triplet_margin_loss, TripletMarginOptions>;

/// Of log-probabilities, targets and the lengths of both.
using CTCLoss = Loss<ctc_loss, CtcOptions>;

// No losses, but called alike: `CosineSimilarity({.axis = 1})(a, b)`.
using CosineSimilarity = Loss<cosine_similarity, CosineOptions>;
using PairwiseDistance = Loss<pairwise_distance, PairwiseDistanceOptions>;

}  // namespace mica::nn
