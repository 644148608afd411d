#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mica/data/loader.h"
#include "mica/nn/module.h"
#include "mica/optim/optimizer.h"
#include "mica/train/evaluate.h"

namespace mica::train {

struct EpochResult {
  int64_t epoch = 0;      ///< the first is 1
  int64_t steps = 0;      ///< since the beginning
  double train_loss = 0;  ///< mean over the epoch, while it was learning
  double test_loss = 0;
  double test_accuracy = 0;  ///< in [0, 1]; 0 where targets are no classes, as top5
  double top5 = 0;
  double lr = 0;  ///< of the last step
  double images_per_s = 0;
  double seconds = 0;  ///< of training alone
  bool best = false;   ///< so far: by accuracy, or by loss where targets are no classes
};

struct TrainerOptions {
  int64_t epochs = 10;
  Loss loss = {};       ///< cross entropy, unless given
  bool compile = true;  ///< captures the step once and replays it
  /// How many steps one replay makes where the training data are resident and steps compiled; 0: as
  /// many as pay on the device. The results are the same for each number.
  int64_t steps_per_launch = 0;
  double clip_norm = 0;       ///< of all gradients together; 0: not clipped
  int64_t patience = 0;       ///< epochs without a better one before it stops; 0: never
  double until_accuracy = 0;  ///< stops after the first epoch with it on the test data; 0: never
  std::string out = {};       ///< directory for checkpoints, metrics and the report; empty: none
  int64_t save_every = 0;     ///< steps between checkpoints; 0: at the end of each epoch
  bool progress = true;       ///< a bar, where stderr is a terminal
  std::function<void(const EpochResult&)> on_epoch = {};
  std::string config = "{}";             ///< JSON, kept in the checkpoints
  std::string title = "A training run";  ///< of the report
  std::string command = {};              ///< makes the run again; shown in the report
};

/// Every `kLogSteps` steps one of these is kept, as the mean since the last one. Of a long run,
/// with thousands of them, half of the older ones are left out time and again; metrics.jsonl has
/// all.
struct StepRecord {
  int64_t step = 0;
  double loss = 0;
  double lr = 0;
};
inline constexpr int64_t kLogSteps = 50;

struct Outcome {
  std::vector<EpochResult> epochs;
  std::vector<StepRecord> steps;
  std::optional<Evaluation> evaluation;  ///< the last one
  bool interrupted = false;              ///< by Ctrl-C; all is saved where `out` is given
  bool stopped_early = false;
  bool reached = false;  ///< the accuracy it was to go on until

  /// Of all epochs, training alone.
  double seconds() const;
};

/// The training loop: epochs, validation, checkpoints, resume.
///
///     optim::SGD optimizer(net.parameters(), {.lr = 0.02, .momentum = 0.9});
///     train::Trainer trainer(net, optimizer, {.epochs = 10, .out = "runs/net"});
///     trainer.fit(train_loader, test_loader);
///
/// A step does not wait for the device; where the training data are resident, a compiled step takes
/// its batch itself and needs nothing from the host. With `out`, `last.safetensors` holds all that
/// is needed to go on bit for bit, `best.safetensors` the best epoch; also `metrics.jsonl`,
/// TensorBoard's event file and `report.html`. Files are replaced in one piece or not at all. One
/// run at a time writes to a directory; a new one takes the place of the run that was there when
/// its own first checkpoint, of no steps, is safe.
class Trainer {
 public:
  Trainer(nn::Module model, optim::Optimizer& optimizer, TrainerOptions options = {});
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  /// Takes model, optimizer, random numbers and position from a checkpoint, or from
  /// `last.safetensors` of a directory. Call it before fit.
  void resume(const std::string& path);

  Outcome fit(const data::Loader& train, const data::Loader& test);

  /// Ops and their kernels in the compiled step, "conv2d: onednn", as often as they run; empty
  /// without one.
  std::vector<std::string> kernels() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mica::train
