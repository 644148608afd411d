#pragma once

#include <limits>
#include <string>

#include "mica/train/trainer.h"

namespace mica::train {

/// Where a run is: all that is not in tensors, but for its history.
struct Position {
  int64_t epoch = 0;  ///< the one in progress, from 0
  int64_t pass = 0;   ///< over the training data, from 0: the epoch, but for steps_per_epoch
  int64_t batch = 0;  ///< done of the pass
  int64_t steps = 0;
  int64_t epoch_steps = 0;  ///< of the epoch
  int64_t images = 0;       ///< likewise
  double seconds = 0;       ///< of the epoch
  double best = -std::numeric_limits<double>::infinity();
  int64_t since_best = 0;  ///< epochs
  double loss_sum = 0;     ///< of the epoch, over images
  double logged_sum = 0;   ///< loss_sum when it was last logged
  int64_t logged_images = 0;
};

/// What a run has measured, as it stands in a checkpoint: made as it comes, so that saving does not
/// take longer the longer a run is.
class History {
 public:
  void add(const EpochResult& result);
  void add(const StepRecord& record);
  const std::vector<EpochResult>& epochs() const { return epochs_; }
  /// At most kMostRecords: every second one of the older goes when there would be more.
  const std::vector<StepRecord>& steps() const { return steps_; }
  static constexpr size_t kMostRecords = 4096;

 private:
  friend std::string to_json(const Position& at, const History& history);
  std::vector<EpochResult> epochs_;
  std::vector<StepRecord> steps_;
  std::string epochs_text_;  ///< JSON, with a comma before each but the first
  std::string steps_text_;
};

/// The metadata `progress` of a checkpoint. Numbers that JSON has not are kept as text.
std::string to_json(const Position& at, const History& history);
/// Raises IoError that names the file where it is no such text.
void from_json(const std::string& text, const std::string& file, Position& at, History& history);

}  // namespace mica::train
