#include "mica/io/checkpoint.h"

#include <nlohmann/json.hpp>

#include "mica/core/check.h"
#include "mica/io/safetensors.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/random/random.h"

namespace mica::io {
namespace {

constexpr std::string_view kModel = "model.";
constexpr std::string_view kOptimizer = "optimizer.";
constexpr const char* kFormat = "format";
constexpr std::string_view kVersion = "mica checkpoint 1";

}  // namespace

void save_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  StateDict tensors;
  for (const auto& [name, t] : checkpoint.model) tensors.emplace(std::string(kModel) + name, t);
  for (const auto& [name, t] : checkpoint.optimizer)
    tensors.emplace(std::string(kOptimizer) + name, t);
  std::map<std::string, std::string> metadata = checkpoint.metadata;
  metadata[kFormat] = kVersion;
  save_safetensors(path, tensors, metadata);
}

Checkpoint load_checkpoint(const std::string& path) {
  Safetensors file = load_safetensors(path);
  const std::string format = file.metadata[kFormat];
  check<IoError>(format == kVersion, "{}: expected a checkpoint (metadata {} = '{}'), got '{}'",
                 path, kFormat, kVersion, format);
  file.metadata.erase(kFormat);
  Checkpoint result{{}, {}, std::move(file.metadata)};
  for (auto& [name, t] : file.tensors) {
    const bool model = name.starts_with(kModel);
    check<IoError>(model || name.starts_with(kOptimizer),
                   "{}: expected tensors named model.NAME or optimizer.NAME, got '{}'", path, name);
    auto& part = model ? result.model : result.optimizer;
    part.emplace(name.substr(model ? kModel.size() : kOptimizer.size()), std::move(t));
  }
  return result;
}

std::string random_state(Device device) {
  const auto values = [](Device d) { return to(rng_state(d), Device::cpu()).to_vector<int64_t>(); };
  return nlohmann::json{{"cpu", values(Device::cpu())}, {"device", values(device)}}.dump();
}

void set_random_state(const std::string& text, Device device, const std::string& name) {
  const nlohmann::json state = nlohmann::json::parse(text, nullptr, false);
  const auto restore = [&](const char* key, Device d) {
    const auto found = state.find(key);
    const bool good = found != state.end() && found->is_array() && found->size() == 2 &&
                      (*found)[0].is_number_integer() && (*found)[1].is_number_integer();
    check<IoError>(good, "{}: random state: expected two whole numbers as '{}', got {}", name, key,
                   text);
    copy_(rng_state(d), to(tensor(found->get<std::vector<int64_t>>(), {2}), d));
  };
  restore("cpu", Device::cpu());
  restore("device", device);
}

}  // namespace mica::io
