#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mica/models/image_models.h"
#include "mica/nn/containers.h"
#include "mica/ops/activation.h"

// Networks for images (N, 1, 28, 28) that give ten logits, unless their options say otherwise.
namespace mica::models {

struct MlpOptions {
  int64_t in = 28 * 28;
  std::vector<int64_t> hidden = {512, 256};
  int64_t classes = 10;
  Activation activation = Activation::relu;
};
/// Linear layers with an activation between them: `mlp({.hidden = {128}})`.
nn::Sequential mlp(const MlpOptions& options = {});

struct CnnOptions {
  int64_t in = 3;     ///< channels
  int64_t side = 32;  ///< of the square images
  std::vector<int64_t> channels = {16, 32};
  int64_t classes = 10;
  bool bias = true;
};
/// For each number of channels a convolution of 3×3 that keeps the size, ReLU and pooling by 2;
/// then one linear layer.
nn::Sequential cnn(const CnnOptions& options = {});

/// One convolution of 16 channels, ReLU, pooling, one linear layer; no biases.
nn::Sequential simple_cnn();

/// Two convolutions of 20 and 50 channels with pooling, 500 hidden units.
nn::Sequential lenet();

/// LeNet with 6 and 16 channels and 120 hidden units, ReLU after each.
nn::Sequential lenet6();

/// Two convolutions of 32 and 64 channels, pooling, 128 hidden units, dropout.
nn::Sequential mnist_net();

/// The names that `make` knows: every network here and in image_models.h that gives logits of whole
/// images.
std::vector<std::string> names();
/// A model by name; an error lists the names. The networks of this header are for images of 28×28,
/// one channel and ten classes whatever the options say, and raise where these say otherwise.
nn::Module make(std::string_view name);
nn::Module make(std::string_view name, const ModelOptions& options);

}  // namespace mica::models
