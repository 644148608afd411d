#pragma once

#include "mica/inference/network.h"
#include "mica/onnx/model.h"

namespace mica::onnx {

/// A network as an ONNX model, which keeps the memory of the constants that it refers to. Raises
/// Unsupported that lists every call that ONNX has no operators for.
ModelProto to_model(const inference::Network& network, int64_t opset);

}  // namespace mica::onnx
