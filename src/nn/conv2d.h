#pragma once

#include "mica/nn/module.h"
#include "mica/ops/conv2d/conv2d.h"

namespace mica::nn {

struct Conv2dOptions {
  int64_t in = 0;   ///< channels
  int64_t out = 0;  ///< channels
  Size2 kernel = 0;
  Size2 stride = 1;
  Size2 padding = 0;
  Size2 dilation = 1;
  int64_t groups = 1;
  bool bias = true;
};

struct Conv2dImpl : ModuleImpl {
  explicit Conv2dImpl(const Conv2dOptions& options);
  /// (N, in, H, W) to (N, out, H', W').
  Tensor forward(const Tensor& x) override;

  const Conv2dParams params;
  Tensor weight;  ///< (out, in/groups, kH, kW)
  Tensor bias;    ///< (out), or undefined
};

/// `Conv2d({.in = 1, .out = 20, .kernel = 5})`.
class Conv2d : public Handle<Conv2dImpl> {
 public:
  explicit Conv2d(const Conv2dOptions& options) : Handle(options) {}
};

}  // namespace mica::nn
