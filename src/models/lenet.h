#pragma once

#include "mica/nn/containers.h"

namespace mica::models {

/// LeNet for images (N, 1, 28, 28): two convolutions with pooling, two linear layers, ten logits.
nn::Sequential lenet();

}  // namespace mica::models
