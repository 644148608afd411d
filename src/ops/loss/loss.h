#pragma once

#include "mica/core/tensor.h"
#include "mica/ops/loss/reduction.h"

// Losses of an input (the prediction) and a target, with the names and the meaning PyTorch gives
// them. Input and target have one shape: they do not broadcast.
namespace mica {

/// (input - target)^2.
Tensor mse_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);
/// |input - target|.
Tensor l1_loss(const Tensor& input, const Tensor& target, Reduction reduction = Reduction::mean);

struct SmoothL1Options {
  double beta = 1.0;  ///< where the parabola becomes a line; 0 gives l1_loss
  Reduction reduction = Reduction::mean;
};
/// With d = |input - target|: d^2 / (2 beta) where d < beta, else d - beta / 2.
Tensor smooth_l1_loss(const Tensor& input, const Tensor& target,
                      const SmoothL1Options& options = {});

struct HuberOptions {
  double delta = 1.0;  ///< where the parabola becomes a line
  Reduction reduction = Reduction::mean;
};
/// With d = |input - target|: d^2 / 2 where d <= delta, else delta (d - delta / 2).
Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberOptions& options = {});

struct BinaryCrossEntropyOptions {
  Tensor weight = {};  ///< of each loss; broadcasts
  Reduction reduction = Reduction::mean;
};
/// -(target log(input) + (1 - target) log(1 - input)) of probabilities; logarithms are at least
/// -100. The op of the same name gives the losses of single elements.
Tensor binary_cross_entropy(const Tensor& input, const Tensor& target,
                            const BinaryCrossEntropyOptions& options = {});

struct BinaryCrossEntropyWithLogitsOptions {
  Tensor weight = {};      ///< of each loss; broadcasts
  Tensor pos_weight = {};  ///< of targets of 1; broadcasts
  Reduction reduction = Reduction::mean;
};
/// The same of sigmoid(input), for inputs of any size. The op of the same name gives the losses of
/// single elements, without weights.
Tensor binary_cross_entropy_with_logits(const Tensor& input, const Tensor& target,
                                        const BinaryCrossEntropyWithLogitsOptions& options = {});

struct KlDivOptions {
  bool log_target = false;  ///< the target is a log-probability too
  Reduction reduction = Reduction::mean;
};
/// target (log(target) - input), where the input is a log-probability.
Tensor kl_div(const Tensor& input, const Tensor& target, const KlDivOptions& options = {});

struct NllOptions {
  Tensor weight = {};           ///< (C), of each class
  int64_t ignore_index = -100;  ///< targets that count for nothing
  Reduction reduction = Reduction::mean;
};
/// -input[target] of log-probabilities (N, C, …) and classes (N, …) of an integer type, or (C) and
/// (). The mean is weighted by the classes' weights. A class outside [0, C) raises IndexError.
Tensor nll_loss(const Tensor& input, const Tensor& target, const NllOptions& options = {});

struct CosineOptions {
  int64_t axis = 1;
  double eps = 1e-8;  ///< the least length a vector counts with
};
/// The cosine of the angle between vectors along an axis; a and b broadcast.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, const CosineOptions& options = {});

struct MarginOptions {
  double margin = 0.0;
  Reduction reduction = Reduction::mean;
};
/// 1 - cos(a, b) where the target is 1, max(0, cos(a, b) - margin) where it is -1; a and b are
/// (N, D) or (D), the target is (N) or ().
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                             const MarginOptions& options = {});
/// max(0, margin - target (a - b)), with targets of 1 and -1.
Tensor margin_ranking_loss(const Tensor& a, const Tensor& b, const Tensor& target,
                           const MarginOptions& options = {});
/// input where the target is 1, max(0, margin - input) where it is -1.
Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target,
                            const MarginOptions& options = {.margin = 1.0});
/// log(1 + exp(-target input)), with targets of 1 and -1.
Tensor soft_margin_loss(const Tensor& input, const Tensor& target,
                        Reduction reduction = Reduction::mean);

struct TripletMarginOptions {
  double margin = 1.0;
  double p = 2.0;     ///< of the norm of a difference
  double eps = 1e-6;  ///< added to each difference
  bool swap = false;  ///< the negative's distance is the lesser of those to anchor and positive
  Reduction reduction = Reduction::mean;
};
/// max(0, |anchor - positive| - |anchor - negative| + margin), norms along the last axis.
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginOptions& options = {});

}  // namespace mica
