#pragma once

#include "mica/nn/module.h"
#include "mica/ops/max_pool2d/max_pool2d.h"

namespace mica::nn {

struct MaxPool2dImpl : ModuleImpl {
  explicit MaxPool2dImpl(const MaxPool2dParams& p) : params(p) {}
  Tensor forward(const Tensor& x) override { return max_pool2d(x, params); }

  const MaxPool2dParams params;
};

/// `MaxPool2d(2)` or `MaxPool2d({.kernel = 3, .stride = 2, .padding = 1})`.
class MaxPool2d : public Handle<MaxPool2dImpl> {
 public:
  explicit MaxPool2d(const MaxPool2dParams& params) : Handle(params) {}
  explicit MaxPool2d(Size2 kernel) : Handle(MaxPool2dParams{.kernel = kernel}) {}
};

}  // namespace mica::nn
