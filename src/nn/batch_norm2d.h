#pragma once

#include "mica/nn/module.h"

namespace mica::nn {

struct BatchNorm2dOptions {
  int64_t features = 0;  ///< channels
  double eps = 1e-5;
  double momentum = 0.1;  ///< weight of the new statistics in the running ones
  bool affine = true;     ///< has weight and bias
};

struct BatchNorm2dImpl : ModuleImpl {
  explicit BatchNorm2dImpl(const BatchNorm2dOptions& options);
  /// (N, features, H, W). Training normalises by the batch and updates the running statistics,
  /// which evaluation uses.
  Tensor forward(const Tensor& x) override;

  const double eps;
  const double momentum;
  Tensor weight, bias;               ///< (features), or undefined
  Tensor running_mean, running_var;  ///< (features)
};

/// `BatchNorm2d(64)` or `BatchNorm2d({.features = 64, .momentum = 0.01})`.
class BatchNorm2d : public Handle<BatchNorm2dImpl> {
 public:
  explicit BatchNorm2d(const BatchNorm2dOptions& options) : Handle(options) {}
  explicit BatchNorm2d(int64_t features) : Handle(BatchNorm2dOptions{.features = features}) {}
};

}  // namespace mica::nn
