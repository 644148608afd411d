#pragma once

#include "mica/nn/module.h"
#include "mica/ops/dropout/dropout.h"

namespace mica::nn {

/// Zeroes elements with probability p in training; passes its input on in evaluation.
struct DropoutImpl : ModuleImpl {
  explicit DropoutImpl(double probability = 0.5) : p(probability) {}
  Tensor forward(const Tensor& x) override { return dropout(x, p, training()); }

  const double p;
};
using Dropout = Handle<DropoutImpl>;

}  // namespace mica::nn
