#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mica/optim/optimizer.h"

// Rates that advance when they are told to, as PyTorch's do: once an epoch, or once a step. They
// write to the optimizer's base rates, on the device; step() may be part of a compiled step. For a
// rate that follows the count of steps by itself there is Optimizer::set_schedule.
namespace mica::optim {

/// What writes to an optimizer's rates. The optimizer must outlive it. Each of an optimizer takes
/// the place of the one before; several at once are one, of a joined Schedule.
class RateWriter {
 public:
  virtual ~RateWriter() = default;
  RateWriter(const RateWriter&) = delete;
  RateWriter& operator=(const RateWriter&) = delete;

  Optimizer& optimizer() const { return optimizer_; }
  /// The rates of the groups; waits for the device.
  std::vector<double> get_last_lr() const;
  /// Handles to the state itself.
  virtual StateDict state_dict() const = 0;
  /// Copies values in; a missing, unknown or misshapen entry raises, and then nothing was changed.
  void load_state_dict(const StateDict& state);

 protected:
  RateWriter(Optimizer& optimizer, const char* name);
  const char* name() const { return name_; }
  /// Raises where another one has taken its place.
  void check_current() const;

 private:
  Optimizer& optimizer_;
  const char* name_;
};

/// A momentum beside a rate: `schedule` over the calls of step(), of a momentum of `base`. It takes
/// the place of SGD's momentum and of the first beta of Adam and AdamW.
struct MomentumSchedule {
  Schedule schedule;
  double base = 0;
};

/// A schedule over the number of calls of step(), from the rates that the optimizer had when the
/// first scheduler was made. The first rate is that of 0 calls.
class LRScheduler : public RateWriter {
 public:
  /// `last_epoch`: goes on after so many calls.
  LRScheduler(Optimizer& optimizer, Schedule schedule, int64_t last_epoch = -1,
              const std::optional<MomentumSchedule>& momentum = {});

  void step();
  /// The calls of step(); waits for the device.
  int64_t last_epoch() const;
  const Schedule& schedule() const { return schedule_; }
  StateDict state_dict() const override;

 private:
  void advance();

  Schedule schedule_;
  Tensor curve_;
  StepCount count_;
  Tensor momentum_curve_;  ///< where there is one
  Tensor momentum_base_;   ///< f64 [groups]
  StepCount momentum_count_;
};

/// The momentum of PyTorch's OneCycleLR: from `most` to `least` while the rate rises, and back.
MomentumSchedule one_cycle_momentum(const OneCycleOptions& options, double least = 0.85,
                                    double most = 0.95);
/// Of its CyclicLR: highest where the rate is lowest.
MomentumSchedule cyclic_momentum(const CyclicOptions& options, double least = 0.8,
                                 double most = 0.9);

struct PlateauOptions {
  bool larger_is_better = false;
  double factor = 0.1;
  int64_t patience = 10;  ///< calls without improvement that are let pass
  double threshold = 1e-4;
  bool absolute = false;  ///< the threshold is a difference, not a part of the best
  int64_t cooldown = 0;   ///< calls after a cut in which none is counted
  double min_lr = 0;
  double eps = 1e-8;  ///< a smaller change of the rate is left out
};

/// Cuts the rates when a metric has stopped getting better.
class ReduceLROnPlateau final : public RateWriter {
 public:
  explicit ReduceLROnPlateau(Optimizer& optimizer, const PlateauOptions& options = {});
  /// metric: one number on the optimizer's device, or on the host.
  void step(const Tensor& metric);
  void step(double metric);
  const PlateauOptions& options() const { return options_; }
  StateDict state_dict() const override;

 private:
  PlateauOptions options_;
  Tensor best_;      ///< f64 []
  Tensor bad_;       ///< f64 [], calls without improvement
  Tensor cooldown_;  ///< f64 [], calls that are left of it
};

}  // namespace mica::optim
