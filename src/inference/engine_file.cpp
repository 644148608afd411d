#include "mica/inference/engine_file.h"

#include <array>
#include <cstring>

#include "mica/core/check.h"
#include "mica/core/version.h"
#include "mica/inference/network.h"
#include "mica/io/file.h"
#include "mica/io/safetensors.h"
#include "mica/ops/copy/copy.h"

namespace mica::inference {
namespace {

constexpr const char* kFormat = "format";
constexpr std::string_view kVersion = "mica engine 1";
constexpr const char* kNetwork = "network";
constexpr const char* kHash = "hash";
constexpr const char* kLibrary = "library";

/// A hash that finds damage at the speed of memory; it is no protection against forgery.
class Hash {
 public:
  void add(std::span<const std::byte> bytes) {
    Words lanes = lanes_;
    lanes[0] = hash_mix(lanes[0], bytes.size());
    Words words;
    for (; bytes.size() >= sizeof words; bytes = bytes.subspan(sizeof words)) {
      std::memcpy(words.data(), bytes.data(), sizeof words);
      mix(lanes, words);
    }
    words = {};
    if (!bytes.empty()) std::memcpy(words.data(), bytes.data(), bytes.size());
    mix(lanes, words);
    lanes_ = lanes;
  }
  std::string text() const {
    uint64_t h = 0;
    for (const uint64_t lane : lanes_) h = hash_mix(h, lane);
    return fmt::format("{:016x}", h);
  }

 private:
  using Words = std::array<uint64_t, 4>;
  static void mix(Words& lanes, const Words& words) {
    for (size_t i = 0; i < lanes.size(); ++i) {
      lanes[i] = hash_mix(lanes[i], words[i]);
      // In a register of its own: AVX2 has no product of 64 bits, and GCC's of four takes four
      // times as long as these.
      asm("" : "+r"(lanes[i]));
    }
  }
  Words lanes_{1, 2, 3, 4};
};

std::string hash_of(const std::string& network, const StateDict& tensors) {
  Hash hash;
  hash.add(std::as_bytes(std::span(network)));
  for (const auto& [name, tensor] : tensors) {
    hash.add(std::as_bytes(std::span(name)));
    const Tensor values = to(contiguous(tensor), Device::cpu());
    const auto* data = static_cast<const std::byte*>(values.data());
    hash.add({data, data ? static_cast<size_t>(values.numel()) * size_of(values.dtype()) : 0});
  }
  return hash.text();
}

}  // namespace

void save_engine(const std::string& path, const EngineFile& engine) {
  StateDict tensors;
  for (const Network::Constant& c : engine.network.constants)
    tensors.emplace(c.name, to(contiguous(c.tensor.detach()), Device::cpu()));
  const std::string text = network_text(engine);
  io::save_safetensors(path, tensors,
                       {{kFormat, std::string(kVersion)},
                        {kNetwork, text},
                        {kHash, hash_of(text, tensors)},
                        {kLibrary, version()}});
}

EngineFile load_engine(const std::string& path) {
  const io::Safetensors file = io::load_safetensors(path);
  const auto entry = [&](const char* key) {
    const auto at = file.metadata.find(key);
    return at == file.metadata.end() ? std::string() : at->second;
  };
  check<IoError>(entry(kFormat) == kVersion,
                 "{}: expected an engine (metadata {} = '{}'), got '{}'", path, kFormat, kVersion,
                 entry(kFormat));
  const std::string text = entry(kNetwork);
  const std::string hash = hash_of(text, file.tensors);
  check<IoError>(hash == entry(kHash), "{}: damaged: its hash is {}, and should be {}", path, hash,
                 entry(kHash));
  return network_from_text(text, file.tensors, path);
}

bool is_engine(const std::string& path) {
  const io::File file = io::File::open(path);
  std::vector<std::byte> head(std::min<uint64_t>(file.size(), io::kSafetensorsLength));
  file.read(head, 0);
  try {
    head.resize(io::safetensors_header_end(head, file.size(), path));
    file.read(head, 0);
    const io::SafetensorsHeader header = io::parse_safetensors_header(head, file.size(), path);
    const auto at = header.metadata.find(kFormat);
    return at != header.metadata.end() && at->second.starts_with("mica engine ");
  } catch (const IoError&) {
    return false;
  }
}

}  // namespace mica::inference
