#pragma once

#include "mica/nn/describe.h"
#include "mica/nn/module.h"
#include "mica/ops/dropout/dropout.h"

namespace mica::nn {

/// Zeroes elements with probability p in training; passes its input on in evaluation.
struct DropoutImpl : ModuleImpl {
  explicit DropoutImpl(double probability = 0.5) : p(probability) {}
  Tensor forward(const Tensor& x) { return dropout(x, p, training()); }
  std::string describe() const override { return nn::describe("Dropout", DropoutParams{p}); }

  const double p;
};
using Dropout = Handle<DropoutImpl>;

/// The same for whole channels of x (N, C, …) with `kAxes` axes of space.
template <int kAxes>
struct ChannelDropoutImpl : ModuleImpl {
  explicit ChannelDropoutImpl(double probability = 0.5) : p(probability) {}
  Tensor forward(const Tensor& x);
  std::string describe() const override;

  const double p;
};
using Dropout1d = Handle<ChannelDropoutImpl<1>>;
using Dropout2d = Handle<ChannelDropoutImpl<2>>;
using Dropout3d = Handle<ChannelDropoutImpl<3>>;

}  // namespace mica::nn
