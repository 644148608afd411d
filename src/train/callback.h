#pragma once

#include "mica/train/evaluate.h"

namespace mica::train {

struct Outcome;
struct StepRecord;

/// Is told what happens in a run; what it does not want to know it leaves as it is. Trainer::stop()
/// ends the run from any of them.
class Callback {
 public:
  virtual ~Callback() = default;

  virtual void on_fit_begin() {}
  /// After every step, where there is one that `wants_steps`: then each is a launch of its own.
  virtual void on_step_end(int64_t /*step*/) {}
  virtual bool wants_steps() const { return false; }
  /// Every kLogSteps steps.
  virtual void on_log(const StepRecord& /*record*/) {}
  /// Also of those between the ends of epochs.
  virtual void on_evaluation_end(int64_t /*step*/, const Evaluation& /*evaluation*/) {}
  virtual void on_epoch_end(const io::EpochResult& /*result*/) {}
  virtual void on_fit_end(const Outcome& /*outcome*/) {}
};

}  // namespace mica::train
