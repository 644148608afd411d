#pragma once

#include "mica/models/resnet.h"
#include "mica/nn/nn.h"

namespace mica::models {

/// A residual network up to its last stage.
struct ResNetFeaturesImpl : nn::ModuleImpl {
  explicit ResNetFeaturesImpl(const ResNetOptions& options);
  /// What the last `count` of the four stages give for images (N, in, H, W).
  Tensors stages(const Tensor& x, size_t count);
  Tensor forward(const Tensor& x) { return stages(x, 1)[0]; }
  std::string describe() const override { return "ResNetFeatures()"; }

 protected:
  int64_t channels_ = 64;  ///< of what the last stage gives

 private:
  nn::Conv2d first_;
  nn::BatchNorm2d norm_;
  std::vector<nn::Sequential> stages_;
};

}  // namespace mica::models
