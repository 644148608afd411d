#pragma once

#include "mica/nn/op_layer.h"
#include "mica/ops/local_response_norm/local_response_norm.h"

namespace mica::nn {

struct LayerNormOptions {
  Shape shape = {};  ///< of the last axes, over which is normalised
  double eps = 1e-5;
  bool affine = true;  ///< has a weight
  bool bias = true;    ///< and a bias

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("shape", self.shape);
    f("eps", self.eps);
    f("affine", self.affine);
    f("bias", self.bias);
  }
};

struct LayerNormImpl : ModuleImpl {
  explicit LayerNormImpl(const LayerNormOptions& options);
  Tensor forward(const Tensor& x);
  std::string describe() const override;

  LayerNormOptions options;
  // of `shape`, or undefined
  Parameter weight{this, "weight"};
  Parameter bias{this, "bias"};
};

/// `LayerNorm(64)` or `LayerNorm({.shape = {20, 5, 5}})`.
class LayerNorm : public Handle<LayerNormImpl> {
 public:
  template <std::same_as<std::nullptr_t> Nothing>
  LayerNorm(Nothing) : Handle(nullptr) {}
  explicit LayerNorm(const LayerNormOptions& options);
  explicit LayerNorm(int64_t size);
};

/// Normalises x (N, shape, H, W) over its channels.
struct LayerNorm2dImpl : LayerNormImpl {
  explicit LayerNorm2dImpl(const LayerNormOptions& options);
  Tensor forward(const Tensor& x);
  std::string describe() const override;
};

/// `LayerNorm2d(96)` or `LayerNorm2d({.shape = {96}, .eps = 1e-6})`.
class LayerNorm2d : public Handle<LayerNorm2dImpl> {
 public:
  explicit LayerNorm2d(const LayerNormOptions& options);
  explicit LayerNorm2d(int64_t channels);
};

struct RMSNormOptions {
  Shape shape = {};  ///< of the last axes, over which is normalised
  double eps = 1e-6;
  bool affine = true;  ///< has a weight

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("shape", self.shape);
    f("eps", self.eps);
    f("affine", self.affine);
  }
};

struct RMSNormImpl : ModuleImpl {
  explicit RMSNormImpl(const RMSNormOptions& options);
  Tensor forward(const Tensor& x);
  std::string describe() const override;

  RMSNormOptions options;
  Parameter weight{this, "weight"};  ///< of `shape`, or undefined
};

/// `RMSNorm(64)` or `RMSNorm({.shape = {64}, .eps = 1e-5})`.
class RMSNorm : public Handle<RMSNormImpl> {
 public:
  template <std::same_as<std::nullptr_t> Nothing>
  RMSNorm(Nothing) : Handle(nullptr) {}
  explicit RMSNorm(const RMSNormOptions& options);
  explicit RMSNorm(int64_t size);
};

struct GroupNormOptions {
  int64_t groups = 0;
  int64_t channels = 0;
  double eps = 1e-5;
  bool affine = true;  ///< has weight and bias

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("groups", self.groups);
    f("channels", self.channels);
    f("eps", self.eps);
    f("affine", self.affine);
  }
};

struct GroupNormImpl : ModuleImpl {
  explicit GroupNormImpl(const GroupNormOptions& options);
  /// (N, channels, …).
  Tensor forward(const Tensor& x);
  std::string describe() const override;

  GroupNormOptions options;
  // (channels), or undefined
  Parameter weight{this, "weight"};
  Parameter bias{this, "bias"};
};

/// `GroupNorm(4, 32)` or `GroupNorm({.groups = 4, .channels = 32})`.
class GroupNorm : public Handle<GroupNormImpl> {
 public:
  template <std::same_as<std::nullptr_t> Nothing>
  GroupNorm(Nothing) : Handle(nullptr) {}
  explicit GroupNorm(const GroupNormOptions& options);
  GroupNorm(int64_t groups, int64_t channels);
};

/// `LocalResponseNorm(5)` or `LocalResponseNorm({.size = 5, .k = 2})`.
using LocalResponseNorm =
    OpLayer<"LocalResponseNorm", local_response_norm, LocalResponseNormOptions>;

}  // namespace mica::nn
