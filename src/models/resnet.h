#pragma once

#include <array>

#include "mica/models/image_models.h"

namespace mica::models {

struct ResNetOptions {
  std::array<int64_t, 4> blocks = {3, 4, 6, 3};  ///< of each stage
  bool bottleneck = true;  ///< blocks of three convolutions, the last four times as wide
  int64_t in = 3;          ///< channels of the images
  int64_t classes = 1000;
  /// Whether the last three stages widen the distance of what a convolution reads instead of
  /// halving the size.
  std::array<bool, 3> dilate = {false, false, false};
};

/// A residual network (v1.5: the 3×3 convolution of a bottleneck has the stride) for images of
/// 32×32 and more. Parts have the names that torchvision gives them: "layer1.0.conv1".
nn::Module resnet(const ResNetOptions& options = {});

nn::Module resnet18(const ModelOptions& options = {});
nn::Module resnet34(const ModelOptions& options = {});
nn::Module resnet50(const ModelOptions& options = {});
nn::Module resnet101(const ModelOptions& options = {});
nn::Module resnet152(const ModelOptions& options = {});

}  // namespace mica::models
