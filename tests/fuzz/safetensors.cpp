// Headers of safetensors files.
#include "mica/io/safetensors.h"

#include "tests/fuzz/fuzz.h"

namespace mica::fuzz {
namespace {

Bytes file(const std::string& header, size_t data) {
  const uint64_t length = header.size();
  Bytes bytes =
      to_bytes(std::string(reinterpret_cast<const char*>(&length), sizeof length) + header);
  bytes.resize(bytes.size() + data);
  return bytes;
}

}  // namespace

std::vector<Bytes> seeds() {
  return {file("{}", 0), file(R"({"__metadata__":{"a":"b","c":"\u00e9"}})", 0),
          file(R"({"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}   )", 24),
          file(R"({"a":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
               R"("b":{"dtype":"BOOL","shape":[0,5],"data_offsets":[8,8]},)"
               R"("c":{"dtype":"BF16","shape":[1],"data_offsets":[8,10]}})",
               10)};
}

void read(std::span<const std::byte> bytes) {
  try {
    const auto header = io::parse_safetensors_header(bytes, bytes.size(), "file");
    for (const io::SafetensorsEntry& e : header.entries)
      if (header.data_begin + e.end > bytes.size() ||
          e.end - e.begin != static_cast<uint64_t>(numel(e.shape)) * size_of(e.dtype))
        std::abort();
  } catch (const Unsupported&) {
  }
}

}  // namespace mica::fuzz
