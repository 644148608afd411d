#pragma once

#include <string>
#include <vector>

#include "mica/onnx/model.h"

namespace mica::onnx {

/// A model as the bytes of a file. Raises Unsupported for more than the 2 GiB that the format
/// allows.
std::vector<std::byte> model_bytes(const ModelProto& model);
/// Writes a file, all or nothing (io::write_file_atomically).
void write_model(const std::string& path, const ModelProto& model);

}  // namespace mica::onnx
