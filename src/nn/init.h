#pragma once

#include <cmath>

#include "mica/ops/random/random.h"

namespace mica::nn {

/// Uniform in ±1/√fan_in: what Kaiming's rule with a = √5 comes to, PyTorch's default for the
/// weights and biases of linear and convolution layers.
inline Tensor fan_in_uniform(const Shape& shape, int64_t fan_in) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(fan_in));
  return uniform(shape, -bound, bound);
}

}  // namespace mica::nn
