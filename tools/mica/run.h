#pragma once

#include <string>
#include <vector>

#include "mica/data/dataset.h"
#include "mica/nn/module.h"

namespace mica::tool {

/// What a run was started with; kept as JSON in its checkpoints, so that `mica eval`, `predict` and
/// `train --resume` need nothing else.
struct RunConfig {
  std::string model = "lenet";
  std::string data;  ///< directory; empty: $MICA_DATA, else Debian's Fashion-MNIST
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
  std::vector<std::string> class_names = {};
  float mean = 0;
  float std = 1;
};

std::string to_json(const RunConfig& config);
/// Raises IoError that names the file where it is no such text.
RunConfig config_from_json(const std::string& text, const std::string& file);
/// The configuration that a checkpoint, or the last one of a run's directory, was saved with.
RunConfig config_of_run(const std::string& path);

/// Images and classes, with pixels shifted and scaled as the networks expect them or in [0, 1].
data::TensorDataset load_images(const std::string& directory, bool train, bool normalize = true);

/// A run's network with its weights, in evaluation mode on a device.
struct TrainedModel {
  RunConfig config;
  std::string file;  ///< the checkpoint
  nn::Module model;
};
/// From a checkpoint, or from a run's directory: its best one, or where there is none, its last.
TrainedModel load_run(const std::string& path, Device device);

}  // namespace mica::tool
