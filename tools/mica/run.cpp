#include "tools/mica/run.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "mica/core/check.h"
#include "mica/mica.h"

namespace mica::tool {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

/// Calls f(name, member) for everything that is kept.
template <class Config, class F>
void fields(Config& c, F&& f) {
  f("model", c.model);
  f("data", c.data);
  f("device", c.device);
  f("epochs", c.epochs);
  f("batch", c.batch);
  f("limit", c.limit);
  f("optimizer", c.optimizer);
  f("schedule", c.schedule);
  f("lr", c.lr);
  f("momentum", c.momentum);
  f("weight_decay", c.weight_decay);
  f("clip", c.clip);
  f("patience", c.patience);
  f("seed", c.seed);
  f("threads", c.threads);
  f("augment", c.augment);
  f("compile", c.compile);
  f("deterministic", c.deterministic);
  f("precision", c.precision);
  f("autotune", c.autotune);
  f("class_names", c.class_names);
  f("mean", c.mean);
  f("std", c.std);
}

/// A directory stands for the first of these files that it has.
std::string checkpoint_in(const std::string& path, std::initializer_list<const char*> names) {
  std::error_code ignored;  // opening the file says what is wrong
  if (!fs::is_directory(path, ignored)) return path;
  for (const char* name : names)
    if (const fs::path file = fs::path(path) / name; fs::exists(file, ignored))
      return file.string();
  fail<IoError>("{}: expected a run with {}, which is not there", path, *names.begin());
}

RunConfig config_in(const io::Checkpoint& saved, const std::string& file) {
  const auto config = saved.metadata.find("config");
  check<IoError>(config != saved.metadata.end(),
                 "{}: is not a checkpoint of a run: its metadata has no `config`", file);
  return config_from_json(config->second, file);
}

}  // namespace

std::string to_json(const RunConfig& config) {
  Json j;
  fields(config, [&](const char* name, const auto& value) { j[name] = value; });
  return j.dump();
}

RunConfig config_from_json(const std::string& text, const std::string& file) {
  RunConfig config;
  try {
    const Json j = Json::parse(text);
    fields(config, [&](const char* name, auto& value) { j.at(name).get_to(value); });
  } catch (const nlohmann::json::exception& e) {
    fail<IoError>("{}: its `config` is not that of a run of this command: {}", file, e.what());
  }
  const bool sane = config.epochs >= 1 && config.batch >= 1 && config.limit >= 0 &&
                    config.patience >= 0 && config.threads >= 0;
  check<IoError>(sane, "{}: its `config` has numbers that no run of this command has", file);
  return config;
}

RunConfig config_of_run(const std::string& path) {
  const std::string file = checkpoint_in(path, {"last.safetensors"});
  return config_in(io::load_checkpoint(file), file);
}

data::TensorDataset load_images(const std::string& directory, bool train, bool normalize) {
  return data::fashion_mnist({.train = train, .directory = directory, .normalize = normalize});
}

TrainedModel load_run(const std::string& path, Device device) {
  const std::string file = checkpoint_in(path, {"best.safetensors", "last.safetensors"});
  const io::Checkpoint saved = io::load_checkpoint(file);
  const RunConfig config = config_in(saved, file);
  const nn::Module model = models::make(config.model, {.classes = 10, .in = 1});
  try {
    model.load_state_dict(saved.model);
  } catch (const Error& e) {
    fail<IoError>("{}: {}", file, e.what());
  }
  model.to(device);
  model.eval();
  return {config, file, model};
}

}  // namespace mica::tool
