#pragma once

#include "mica/nn/op_layer.h"
#include "mica/ops/cross_entropy/cross_entropy.h"
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

struct PoissonNLLOptions {
  bool log_input = true;  ///< the input is the logarithm of the expected count
  bool full = false;      ///< with Stirling's approximation of log(target!), for targets above 1
  double eps = 1e-8;      ///< added to an input that is no logarithm
  Reduction reduction = Reduction::mean;
};

struct GaussianNLLOptions {
  bool full = false;  ///< with the constant log(2π) / 2
  double eps = 1e-6;  ///< the least variance
  Reduction reduction = Reduction::mean;
};

struct MultiMarginOptions {
  int64_t p = 1;  ///< 1 or 2: the power of each violation
  double margin = 1;
  Tensor weight = {};  ///< (C), of each class
  Reduction reduction = Reduction::mean;
};

struct MultiLabelSoftMarginOptions {
  Tensor weight = {};  ///< (C), of each class
  Reduction reduction = Reduction::mean;
};

struct PairwiseDistanceOptions {
  double p = 2;
  double eps = 1e-6;  ///< added to each difference
  bool keepdim = false;
};

namespace function {

/// Of Poisson's distribution: exp(input) - target · input.
Tensor poisson_nll_loss(const Tensor& input, const Tensor& target,
                        const PoissonNLLOptions& options = {});
/// (log(var) + (input - target)² / var) / 2; the variance has the input's shape, or with 1 for its
/// last axis, or without that.
Tensor gaussian_nll_loss(const Tensor& input, const Tensor& target, const Tensor& var,
                         const GaussianNLLOptions& options = {});
/// The mean over the classes i of max(0, margin - input[target] + input[i])^p, that of the target
/// left out, of scores (N, C) or (C) and classes (N) or () of an integer type.
Tensor multi_margin_loss(const Tensor& input, const Tensor& target,
                         const MultiMarginOptions& options = {});
/// The mean over the classes of the binary cross entropy of logits (…, C) and targets of 0 and 1.
Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target,
                                   const MultiLabelSoftMarginOptions& options = {});
/// The p-norm of a - b along the last axis; a and b broadcast.
Tensor pairwise_distance(const Tensor& a, const Tensor& b,
                         const PairwiseDistanceOptions& options = {});

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
using PoissonNLLLoss = Loss<function::poisson_nll_loss, PoissonNLLOptions>;
using MultiMarginLoss = Loss<function::multi_margin_loss, MultiMarginOptions>;
using MultiLabelSoftMarginLoss =
    Loss<function::multilabel_soft_margin_loss, MultiLabelSoftMarginOptions>;
/// Of an input, a target and the variance.
using GaussianNLLLoss = Loss<function::gaussian_nll_loss, GaussianNLLOptions>;
// Of two inputs and a target, and of anchor, positive and negative.
using CosineEmbeddingLoss = Loss<cosine_embedding_loss, MarginOptions>;
using MarginRankingLoss = Loss<margin_ranking_loss, MarginOptions>;
using TripletMarginLoss = Loss<triplet_margin_loss, TripletMarginOptions>;

// No losses, but called alike: `CosineSimilarity({.axis = 1})(a, b)`.
using CosineSimilarity = Loss<cosine_similarity, CosineOptions>;
using PairwiseDistance = Loss<function::pairwise_distance, PairwiseDistanceOptions>;

}  // namespace mica::nn
