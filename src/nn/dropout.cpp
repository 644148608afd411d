#include "mica/nn/dropout.h"

#include "mica/core/check.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"

namespace mica::nn {

template <int kAxes>
Tensor ChannelDropoutImpl<kAxes>::forward(const Tensor& x) {
  if constexpr (kAxes == 1) return dropout1d(x, p, training());
  if constexpr (kAxes == 2) return dropout2d(x, p, training());
  return dropout3d(x, p, training());
}

template <int kAxes>
std::string ChannelDropoutImpl<kAxes>::describe() const {
  return nn::describe(fmt::format("Dropout{}d", kAxes), DropoutParams{p});
}

template struct ChannelDropoutImpl<1>;
template struct ChannelDropoutImpl<2>;
template struct ChannelDropoutImpl<3>;

StochasticDepthImpl::StochasticDepthImpl(const StochasticDepthOptions& o) : options(o) {
  check(o.p >= 0 && o.p <= 1, "nn::StochasticDepth: p must be in [0, 1], got {}", o.p);
}

Tensor StochasticDepthImpl::forward(const Tensor& x) {
  if (!training() || options.p == 0) return x;
  Shape kept = Dims::filled(x.rank(), 1);
  if (options.mode == DepthMode::row) kept[0] = x.size(0);
  return x * dropout(ones(kept, {x.dtype(), x.device()}), options.p);
}

StochasticDepth::StochasticDepth(const StochasticDepthOptions& options) : Handle(options) {}
StochasticDepth::StochasticDepth(double p) : Handle(StochasticDepthOptions{.p = p}) {}

std::string DropoutImpl::describe() const { return nn::describe("Dropout", DropoutParams{p}); }
std::string StochasticDepthImpl::describe() const {
  return nn::describe("StochasticDepth", options);
}

}  // namespace mica::nn
