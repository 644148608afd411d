#pragma once

#include "mica/ops/loss/reduction.h"

// Losses of distributions and of many classes, and the distance of vectors, as PyTorch has them.
namespace mica {

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

}  // namespace mica
