// Models and tensors of ONNX.
#include "mica/onnx/model.h"
#include "tests/fuzz/fuzz.h"

namespace mica::fuzz {
namespace {

/// A field that has a length.
std::string part(int number, const std::string& bytes) {
  return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(bytes.size()) +
         bytes;
}

}  // namespace

std::vector<Bytes> seeds() {
  const std::string tensor = std::string("\x08\x02\x10\x01", 4) + part(8, "w") +
                             part(9, std::string("\0\0\x80\x3f\0\0\0\x40", 8));
  const std::string packed = std::string("\x08\x02\x10\x07", 4) + part(7, "\x01\x7f");
  const std::string type =
      part(2, part(1, "\x08\x01" + part(2, part(1, "\x08\x02") + part(1, part(2, "n")))));
  const std::string alpha = part(1, "alpha") + std::string("\x15\0\0\x80\x3f\xa0\x01\x01", 8);
  const std::string node =
      part(1, "x") + part(1, "w") + part(2, "y") + part(3, "add") + part(4, "Add") + part(5, alpha);
  const std::string body = part(1, node) + part(2, "g") + part(12, part(1, "y") + type);
  const std::string branch = part(1, "c") + part(2, "y") + part(4, "If") +
                             part(5, part(1, "then_branch") + part(6, body) + "\xa0\x01\x05");
  const std::string graph = part(1, node) + part(1, branch) + part(5, tensor) + part(5, packed) +
                            part(11, part(1, "x") + type) + part(12, part(1, "y") + type);
  return {to_bytes(std::string("\x08\x08", 2) + part(8, "\x10\x0d") +
                   part(14, part(1, "a") + part(2, "b")) + "\x3a" +
                   static_cast<char>(0x80 | (graph.size() & 0x7F)) +
                   static_cast<char>(graph.size() >> 7) + graph),
          to_bytes(tensor), to_bytes(packed)};
}

void read(std::span<const std::byte> bytes) {
  const onnx::ModelProto model = onnx::parse_model(bytes, "file");
  for (const onnx::TensorProto& t : model.graph.initializer)
    if (!t.raw_data.empty() &&
        (t.raw_data.data() < bytes.data() ||
         t.raw_data.data() + t.raw_data.size() > bytes.data() + bytes.size()))
      std::abort();
}

}  // namespace mica::fuzz
