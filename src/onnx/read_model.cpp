#include "mica/io/read_bytes.h"
#include "mica/onnx/model.h"

namespace mica::onnx {

ModelProto read_model(const std::string& path) {
  auto bytes = std::make_shared<const std::vector<std::byte>>(io::read_bytes(path));
  ModelProto model = parse_model(*bytes, path);
  model.memory = std::move(bytes);
  return model;
}

}  // namespace mica::onnx
