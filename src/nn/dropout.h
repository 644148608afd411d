#pragma once

#include "mica/nn/describe.h"
#include "mica/nn/module.h"
#include "mica/ops/dropout/dropout.h"

namespace mica::nn {

/// Zeroes elements with probability p in training; passes its input on in evaluation.
struct DropoutImpl : ModuleImpl {
  explicit DropoutImpl(double probability = 0.5) : p(probability) {}
  Tensor forward(const Tensor& x) { return dropout(x, p, training()); }
  std::string describe() const override;

  double p;
};
/// Zeros elements in training: `Dropout(0.5)`.
using Dropout = Handle<DropoutImpl>;

/// The same for whole channels of x (N, C, …) with `kAxes` axes of space.
template <int kAxes>
struct ChannelDropoutImpl : ModuleImpl {
  explicit ChannelDropoutImpl(double probability = 0.5) : p(probability) {}
  Tensor forward(const Tensor& x);
  std::string describe() const override;

  double p;
};
/// Zeros whole channels in training, of (N, C, L).
using Dropout1d = Handle<ChannelDropoutImpl<1>>;
/// The same of (N, C, H, W).
using Dropout2d = Handle<ChannelDropoutImpl<2>>;
/// The same of (N, C, D, H, W).
using Dropout3d = Handle<ChannelDropoutImpl<3>>;

/// What StochasticDepth drops together: the whole batch, or each row of it by itself.
enum class DepthMode : int64_t { batch, row };
inline constexpr const char* kDepthModeNames[] = {"batch", "row"};
constexpr std::span<const char* const> names_of(DepthMode) { return kDepthModeNames; }

struct StochasticDepthOptions {
  double p = 0.5;
  DepthMode mode = DepthMode::row;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("p", self.p);
    f("mode", self.mode);
  }
};

/// In training, drops x (N, …) with probability p, the batch or each of its rows, and scales what
/// stays by 1 / (1 - p): a residual branch is left out. Passes its input on in evaluation.
struct StochasticDepthImpl : ModuleImpl {
  explicit StochasticDepthImpl(const StochasticDepthOptions& options);
  Tensor forward(const Tensor& x);
  std::string describe() const override;

  const StochasticDepthOptions options;
};

/// `StochasticDepth(0.2)` or `StochasticDepth({.p = 0.2, .mode = DepthMode::batch})`.
class StochasticDepth : public Handle<StochasticDepthImpl> {
 public:
  explicit StochasticDepth(const StochasticDepthOptions& options);
  explicit StochasticDepth(double p);
};

}  // namespace mica::nn
