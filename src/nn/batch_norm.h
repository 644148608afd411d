#pragma once

#include "mica/nn/describe.h"
#include "mica/nn/module.h"

namespace mica::nn {

struct BatchNormOptions {
  int64_t features = 0;  ///< channels
  double eps = 1e-5;
  double momentum = 0.1;            ///< weight of the new statistics in the running ones
  bool affine = true;               ///< has weight and bias
  bool track_running_stats = true;  ///< else evaluation normalises by the batch too

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("features", self.features);
    f("eps", self.eps);
    f("momentum", self.momentum);
    f("affine", self.affine);
    f("track_running_stats", self.track_running_stats);
  }
};

/// The same as BatchNormOptions but for what is usual.
struct InstanceNormLayerOptions {
  int64_t features = 0;  ///< channels
  double eps = 1e-5;
  double momentum = 0.1;             ///< weight of the new statistics in the running ones
  bool affine = false;               ///< has weight and bias
  bool track_running_stats = false;  ///< evaluation normalises by the running statistics

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    BatchNormOptions::fields(self, f);
  }
};

/// What batch and instance norm have: weight, bias and running statistics, each where wanted.
struct ChannelNormImpl : ModuleImpl {
  ChannelNormImpl(std::string type, int axes, const BatchNormOptions& options);
  /// f32 for f16 and bf16, as the ops want it.
  DType kept_as(DType dtype) const override;

  BatchNormOptions options;
  // (features), or undefined
  Parameter weight{this, "weight"};
  Parameter bias{this, "bias"};
  Buffer running_mean{this, "running_mean"};
  Buffer running_var{this, "running_var"};
  Buffer num_batches_tracked{this, "num_batches_tracked"};  ///< i64 (), or undefined

 protected:
  void check_input(const Tensor& x) const;
  /// Whether the input's own statistics count; then a batch is counted where statistics are kept.
  bool uses_input_stats();

  const std::string type_;
  const int axes_;  ///< of space
};

/// (N, features, space…): normalises each channel. Training normalises by the batch and updates
/// the running statistics, which evaluation uses.
template <int kAxes>
struct BatchNormImpl : ChannelNormImpl {
  explicit BatchNormImpl(const BatchNormOptions& options);
  Tensor forward(const Tensor& x);
  std::string describe() const override { return nn::describe(type_, options); }
};

/// The same by each image's own statistics.
template <int kAxes>
struct InstanceNormImpl : ChannelNormImpl {
  explicit InstanceNormImpl(const InstanceNormLayerOptions& options);
  Tensor forward(const Tensor& x);
  std::string describe() const override;
};

/// `BatchNorm2d(64)` or `BatchNorm2d({.features = 64, .momentum = 0.01})`.
template <class Impl, class Options>
class ChannelNorm : public Handle<Impl> {
 public:
  template <std::same_as<std::nullptr_t> Nothing>
  ChannelNorm(Nothing) : Handle<Impl>(nullptr) {}
  explicit ChannelNorm(const Options& options) : Handle<Impl>(options) {}
  explicit ChannelNorm(int64_t features) : Handle<Impl>(Options{.features = features}) {}
};

/// (N, C) or (N, C, L).
using BatchNorm1d = ChannelNorm<BatchNormImpl<1>, BatchNormOptions>;
/// Over (N, C, H, W).
using BatchNorm2d = ChannelNorm<BatchNormImpl<2>, BatchNormOptions>;
/// Over (N, C, D, H, W).
using BatchNorm3d = ChannelNorm<BatchNormImpl<3>, BatchNormOptions>;
/// Over each channel of each example, (N, C, L).
using InstanceNorm1d = ChannelNorm<InstanceNormImpl<1>, InstanceNormLayerOptions>;
/// The same of (N, C, H, W).
using InstanceNorm2d = ChannelNorm<InstanceNormImpl<2>, InstanceNormLayerOptions>;
/// The same of (N, C, D, H, W).
using InstanceNorm3d = ChannelNorm<InstanceNormImpl<3>, InstanceNormLayerOptions>;

}  // namespace mica::nn
