#include "tools/mica/run.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "mica/core/check.h"
#include "mica/mica.h"
#include "mica/models.h"

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
  f("image_size", c.image_size);
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
                    config.patience >= 0 && config.threads >= 0 && config.image_size >= 1 &&
                    (config.channels() == 1 || config.channels() == 3) &&
                    config.std.size() == config.mean.size() && config.classes() >= 1;
  check<IoError>(sane, "{}: its `config` has numbers that no run of this command has", file);
  return config;
}

RunConfig config_of_run(const std::string& path) {
  const std::string file = checkpoint_in(path, {"last.safetensors"});
  return config_in(io::load_checkpoint(file), file);
}

data::Dataset load_images(RunConfig& c, bool train, bool normalized) {
  std::error_code ignored;
  if (c.data.empty() || !fs::is_directory(fs::path(c.data) / "train", ignored)) {
    const data::TensorDataset images =
        data::fashion_mnist({.train = train, .directory = c.data, .normalize = normalized});
    c.image_size = images.x.size(3);
    c.class_names = images.class_names;
    c.mean = {data::kFashionMean};
    c.std = {data::kFashionStd};
    return images;
  }
  if (c.image_size == 0) c.image_size = 224;
  const data::Dataset images = data::image_folder(
      (fs::path(c.data) / (train ? "train" : "test")).string(), {.size = c.image_size});
  check<IoError>(train || c.class_names.empty() || images.class_names() == c.class_names,
                 "{}: the folders of classes in `test` are not those in `train`", c.data);
  c.class_names = images.class_names();
  c.mean = {0.485F, 0.456F, 0.406F};  // of photos
  c.std = {0.229F, 0.224F, 0.225F};
  return images;
}

data::Loader test_loader(RunConfig& c, Device device, bool resident) {
  const data::Dataset images = load_images(c, false, true);
  constexpr int64_t kPixels = 1000 * 28 * 28;
  data::LoaderOptions o = {.batch = std::max<int64_t>(1, kPixels / (c.image_size * c.image_size)),
                           .device = device,
                           .resident = resident};
  if (c.own_images()) {
    o.workers = num_threads();
    o.augment = {normalize(c)};
  }
  return {images, o};
}

data::Transform normalize(const RunConfig& c) { return data::normalize(c.mean, c.std); }

nn::Module make_network(const RunConfig& c) {
  return models::make(c.model, {.classes = c.classes(), .in = c.channels()});
}

TrainedModel load_run(const std::string& path, Device device) {
  const std::string file = checkpoint_in(path, {"best.safetensors", "last.safetensors"});
  const io::Checkpoint saved = io::load_checkpoint(file);
  const RunConfig config = config_in(saved, file);
  const nn::Module model = make_network(config);
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
