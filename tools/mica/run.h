#pragma once

#include <string>
#include <vector>

#include "mica/data/loader.h"
#include "mica/nn/module.h"

namespace mica::tool {

/// What a run was started with; kept as JSON in its checkpoints, so that `mica eval`, `predict` and
/// `train --resume` need nothing else.
struct RunConfig {
  std::string model = "lenet";
  /// Directory; empty: $MICA_DATA, else Debian's Fashion-MNIST. One with the folders `train` and
  /// `test` has images of its own, in a folder for each class.
  std::string data;
  std::string device = "auto";
  int64_t epochs = 10;
  int64_t batch = 64;
  int64_t limit = 0;  ///< training images; 0: all
  std::string optimizer = "sgd";
  std::string schedule = "cosine";
  double lr = 0;  ///< 0: 0.02 for sgd, 0.001 for the others
  double momentum = 0.9;
  double weight_decay = 0;
  double clip = 0;
  int64_t patience = 0;
  uint64_t seed = 0;
  int threads = 0;  ///< 0: all
  bool augment = false;
  bool compile = true;
  bool deterministic = false;
  std::string precision = {};  ///< of the Trainer
  bool autotune = false;
  // Of the images, which `mica predict` has not.
  int64_t image_size = 0;  ///< height and width; 0: 28 of Fashion-MNIST, 224 of others
  std::vector<std::string> class_names = {};
  std::vector<float> mean = {};  ///< of each channel
  std::vector<float> std = {};

  int64_t channels() const { return static_cast<int64_t>(mean.size()); }
  int64_t classes() const { return static_cast<int64_t>(class_names.size()); }
  /// Not Fashion-MNIST, but coloured ones from files that are read as they come.
  bool own_images() const { return channels() == 3; }
};

std::string to_json(const RunConfig& config);
/// Raises IoError that names the file where it is no such text.
RunConfig config_from_json(const std::string& text, const std::string& file);
/// The configuration that a checkpoint, or the last one of a run's directory, was saved with.
RunConfig config_of_run(const std::string& path);

/// The images, and in `config` what there is to know of them. Those of Fashion-MNIST may be shifted
/// and scaled already.
data::Dataset load_images(RunConfig& config, bool train, bool normalized);
/// What tests them, in large batches.
data::Loader test_loader(RunConfig& config, Device device, bool resident = false);
/// What shifts and scales their pixels as the networks expect them.
data::Transform normalize(const RunConfig& config);
/// A network without weights for such images.
nn::Module make_network(const RunConfig& config);

/// A run's network with its weights, in evaluation mode on a device.
struct TrainedModel {
  RunConfig config;
  std::string file;  ///< the checkpoint
  nn::Module model;
};
/// From a checkpoint, or from a run's directory: its best one, or where there is none, its last.
TrainedModel load_run(const std::string& path, Device device);

}  // namespace mica::tool
