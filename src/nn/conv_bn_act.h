#pragma once

#include "mica/nn/activations.h"
#include "mica/nn/batch_norm.h"
#include "mica/nn/conv.h"

namespace mica::nn {

struct ConvBnAct2dOptions {
  int64_t in = 0;   ///< channels
  int64_t out = 0;  ///< channels
  Size2 kernel = 0;
  Size2 stride = 1;
  Padding<Size2> padding = 0;
  Size2 dilation = 1;
  int64_t groups = 1;
  bool bias = false;                         ///< of the convolution; the norm has one of its own
  Module activation = default_activation();  ///< ReLU unless given; Identity() for none
  double eps = 1e-5;
  double momentum = 0.1;
};

/// Layers that are there already.
struct ConvBnAct2dParts {
  Module conv;  ///< a Conv2d
  Module bn;    ///< a BatchNorm2d
  Module activation = default_activation();
};

/// activation(norm(convolution(x)) + residual): three layers as one, its parts "conv", "bn" and
/// "act", which can be used and saved by themselves. A compiled function computes what follows the
/// convolution in one pass: in training the normalisation, the sum and the activation, and their
/// gradients; in evaluation the norm's numbers go into the convolution's.
struct ConvBnAct2dImpl : ModuleImpl {
  explicit ConvBnAct2dImpl(const ConvBnAct2dOptions& options);
  explicit ConvBnAct2dImpl(const ConvBnAct2dParts& parts);
  /// x (N, in, H, W) and a residual (N, out, H', W'), or none.
  Tensor forward(const Tensor& x, const Tensor& residual = {});
  std::string describe() const override;
};

/// `ConvBnAct2d({.in = 16, .out = 32, .kernel = 3, .padding = 1})`, or of separate layers, which it
/// shares: `ConvBnAct2d(conv, bn)`.
class ConvBnAct2d : public Handle<ConvBnAct2dImpl> {
 public:
  explicit ConvBnAct2d(const ConvBnAct2dOptions& options);
  /// With ReLU.
  ConvBnAct2d(const Conv2d& conv, const BatchNorm2d& bn);
  ConvBnAct2d(const Conv2d& conv, const BatchNorm2d& bn, const Module& activation);
};

}  // namespace mica::nn
