#pragma once

#include <string>
#include <vector>

#include "mica/inference/engine.h"
#include "mica/inference/network.h"

namespace mica::tool {

/// How a file with a network is opened.
struct NetworkOptions {
  Device device = {};
  DType precision = DType::f32;     ///< of an ONNX file; an engine has its own
  std::vector<std::string> shapes;  ///< "1x3x224x224", of one input, or "x=1x3x224x224"
};

/// An engine of an ONNX file, or of one that Engine::save wrote, told apart by what is in them. Of
/// an ONNX model axes without a size are dynamic; such as cannot be are an error, which says how to
/// give a size.
inference::Engine open_network(const std::string& path, const NetworkOptions& options);

/// The options that say how: --device, --precision, --shape.
struct NetworkFlags {
  std::string device = "auto";
  std::string precision = "f32";
  std::vector<std::string> shapes;
  NetworkOptions parsed() const;
};

bool is_onnx(const std::string& path);
/// By its name: model.onnx, net.mica.
bool is_network(const std::string& path);

}  // namespace mica::tool
