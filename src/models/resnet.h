#pragma once

#include <array>

#include "mica/nn/module.h"

namespace mica::models {

struct ResNetOptions {
  std::array<int64_t, 4> blocks = {3, 4, 6, 3};  ///< of each stage
  bool bottleneck = true;  ///< blocks of three convolutions, the last four times as wide
  int64_t in = 3;          ///< channels of the images
  int64_t classes = 1000;
};

/// A residual network (v1.5: the 3×3 convolution of a bottleneck has the stride) for images of
/// 32×32 and more. Parts have the names that torchvision gives them: "layer1.0.conv1".
nn::Module resnet(const ResNetOptions& options = {});

nn::Module resnet18(int64_t classes = 1000);
nn::Module resnet34(int64_t classes = 1000);
nn::Module resnet50(int64_t classes = 1000);
nn::Module resnet101(int64_t classes = 1000);

}  // namespace mica::models
