#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mica/data/loader.h"
#include "mica/nn/module.h"
#include "mica/optim/optimizer.h"
#include "mica/train/callback.h"

namespace mica::train {

using io::EpochResult;

struct TrainerOptions {
  int64_t epochs = 10;
  /// An epoch ends after so many steps, or with the data; the next one goes on where it ended. 0:
  /// with the data, as they come in one walk over the loader.
  int64_t steps_per_epoch = 0;
  Loss loss = {};                    ///< cross entropy, unless given
  std::vector<Metric> metrics = {};  ///< on the test data; those of the task, unless given
  Split split = {};     ///< which parts of a batch are inputs and target; split_batch, unless given
  bool compile = true;  ///< captures the step and the evaluation once and replays them
  /// How many steps one replay makes where the training data are resident and steps compiled; 0: as
  /// many as pay on the device. The results are the same for each number.
  int64_t steps_per_launch = 0;
  double clip_norm = 0;  ///< of all gradients together; 0: not clipped
  /// What steps and evaluations compute in: "f32"; "tf32", products of f32 by tensor cores; "bf16"
  /// and "f16", as autocast chooses, f16 with scaled gradients. Weights stay what they are. Empty:
  /// as the program's settings are, f32 unless set_allow_tf32 or an Autocast around fit says more.
  std::string precision = {};
  int64_t patience = 0;  ///< epochs without a better one before it stops; 0: never
  /// What the best epoch is best by: "loss" or the name of a metric. Unless given: the first of
  /// `metrics`, or of the task's accuracy for classes, mean_iou for pixels, else the loss.
  std::string best_by = {};
  /// Steps between evaluations, beside those at the end of each epoch; 0: none.
  int64_t evaluate_every = 0;
  double until_accuracy = 0;  ///< stops after the first epoch with it on the test data; 0: never
  std::string out = {};       ///< directory for checkpoints, metrics and the report; empty: none
  int64_t save_every = 0;     ///< steps between checkpoints; 0: at the end of each epoch
  double save_minutes = 0;    ///< the same in minutes; 0: at the end of each epoch
  bool progress = true;       ///< a bar, where stderr is a terminal
  std::function<void(const EpochResult&)> on_epoch = {};
  std::vector<std::shared_ptr<Callback>> callbacks = {};
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
  bool stopped_early = false;            ///< for want of patience, or by Trainer::stop()
  bool reached = false;                  ///< the accuracy it was to go on until

  /// Of all epochs, training alone.
  double seconds() const;
};

/// The training loop: epochs, validation, checkpoints, resume.
///
///     optim::SGD optimizer(net.parameters(), {.lr = 0.02, .momentum = 0.9});
///     train::Trainer trainer(net, optimizer, {.epochs = 10, .out = "runs/net"});
///     trainer.fit(train_loader, test_loader);
///
/// Batches may have any structure: `split` says what of one is the model's and what the loss's.
/// A step does not wait for the device; where the training data are resident, a compiled step takes
/// its batch itself and needs nothing from the host. With `out`, `last.safetensors` holds all that
/// is needed to go on bit for bit, `best.safetensors` the best epoch; also `metrics.jsonl`,
/// TensorBoard's event file and `report.html`. Files are replaced in one piece or not at all. One
/// run at a time writes to a directory; a new one takes the place of the run that was there when
/// its own first checkpoint, of no steps, is safe. A run over a stream or by a sampler goes on as
/// exactly as these give the same examples for the same epoch; of a stream, what was trained on is
/// read again.
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
  /// Ends a fit after the step or evaluation in progress, with all saved; any thread may call it.
  void stop();

  /// Ops and their kernels in the compiled step, "conv2d: onednn", as often as they run; empty
  /// without one.
  std::vector<std::string> kernels() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace mica::train
