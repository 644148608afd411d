#pragma once

#include <functional>

#include "mica/nn/nn.h"

// What the image networks are made of.
namespace mica::models {

using NamedParts = std::vector<std::pair<std::string, nn::Module>>;

/// One layer after the other, and the input added to what they give.
struct ResidualImpl : nn::SequentialImpl {
  Values call(const Values& inputs) override;
};

/// Modules in a row under these names, with the input added where `residual`.
nn::Module in_a_row(const NamedParts& parts, bool residual = false);

/// torchvision's Conv2dNormActivation: a convolution without bias that keeps the size but for its
/// stride, batch norm (whose `features` are filled in) and activations, of which there may be none.
nn::Module conv_norm_act(nn::Conv2dOptions conv, const std::vector<nn::Module>& activation,
                         nn::BatchNormOptions norm = {});

/// (N, C, H, W) to (N, C, 1, 1): the mean of each channel.
nn::Module global_pool();

/// Gives convolutions, and linear layers where `linear` is there, these first weights, and both
/// biases of 0.
void init_weights(const nn::Module& net, const nn::Initializer& convolution,
                  const nn::Initializer& linear);
void init_fan_out(const Tensor& weight);
nn::Initializer init_normal(double std);

}  // namespace mica::models
