#pragma once

#include <vector>

#include "mica/ops/schedule_lr/rate_curve.h"

namespace mica::optim {

/// A learning rate as a function of the number of steps done: `cosine({.steps =
/// 9380}).warmup(500)`. The device evaluates the same function, from a count that lies there.
class Schedule {
 public:
  Schedule() = default;
  explicit Schedule(const RateCurve& curve) : curve_(curve) {}

  /// The rate of the step after `step` steps.
  double lr_at(double base_lr, int64_t step) const { return rate_at(curve_, base_lr, step); }
  /// The same for a base rate of 1.
  double at(int64_t step) const { return lr_at(1, step); }

  /// This schedule after `steps` steps in which the rate rises linearly from `start` times the base
  /// rate to the base rate itself.
  Schedule warmup(int64_t steps, double start = 1.0 / 3) const;

  const RateCurve& curve() const { return curve_; }
  bool operator==(const Schedule&) const = default;

 private:
  RateCurve curve_;
};

/// The base rate throughout.
Schedule constant();

struct StepOptions {
  int64_t every = 1;
  double gamma = 0.1;
};
/// Times gamma after every so many steps.
Schedule step(const StepOptions& options);

struct MultiStepOptions {
  std::vector<int64_t> milestones;  ///< at most eight, in ascending order
  double gamma = 0.1;
};
/// Times gamma at each milestone.
Schedule multi_step(const MultiStepOptions& options);

struct ExponentialOptions {
  double gamma;
};
/// Times gamma after each step.
Schedule exponential(const ExponentialOptions& options);

struct CosineOptions {
  int64_t steps;
  double min_lr = 0;
};
/// From the base rate to min_lr along half a cosine; after `steps` it stays there.
Schedule cosine(const CosineOptions& options);

struct LinearOptions {
  int64_t steps;
};
/// From the base rate to zero along a line; after `steps` it stays there.
Schedule linear(const LinearOptions& options);

struct WarmupOptions {
  int64_t steps;
  double start = 1.0 / 3;
  Schedule then = {};
};
/// `then.warmup(steps, start)`.
Schedule warmup(const WarmupOptions& options);

struct OneCycleOptions {
  int64_t steps;
  double pct_start = 0.3;         ///< the part of the steps in which the rate rises
  double div_factor = 25;         ///< the first rate is the base rate divided by this,
  double final_div_factor = 1e4;  ///< the last one the first divided by this
};
/// PyTorch's OneCycleLR with the base rate as the highest: it rises and falls along half cosines.
/// Momentum is left alone. After `steps` the rate stays at the last.
Schedule one_cycle(const OneCycleOptions& options);

struct TimeDecayOptions {
  double decay;
};
/// lr / (1 + decay * step).
Schedule time_decay(const TimeDecayOptions& options);

}  // namespace mica::optim
