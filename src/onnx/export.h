#pragma once

#include <string>
#include <vector>

#include "mica/inference/trace.h"
#include "mica/nn/module.h"

namespace mica::onnx {

struct ExportOptions {
  static constexpr int64_t kFirstOpset = 17;
  static constexpr int64_t kLastOpset = 22;

  int64_t opset = kFirstOpset;
  std::vector<std::string> input_names = {};
  std::vector<std::string> output_names = {};
  std::vector<inference::DynamicAxis> dynamic = {};
};

/// Writes what a module in evaluation mode computes of arguments like the example as an ONNX file,
/// all or nothing, batch norms folded. Raises Unsupported that lists every call that ONNX has no
/// operators for, before anything is written.
void export_model(const nn::Module& module, const Values& example, const std::string& path,
                  const ExportOptions& options = {});

}  // namespace mica::onnx
