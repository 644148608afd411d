#pragma once

#include "mica/onnx/call.h"

namespace mica::onnx {

/// The convolution that a node's attributes describe; the integer ones use it too.
Tensor convolve(const Call& c, const Tensor& x, const Tensor& weight, const Tensor& bias);

}  // namespace mica::onnx
