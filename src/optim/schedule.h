#pragma once

#include <vector>

#include "mica/ops/schedule_lr/rate_curve.h"

namespace mica::optim {

/// A learning rate as a function of the number of steps done: `cosine({.steps =
/// 9380}).warmup(500)`. The device evaluates the same function, from a count that lies there.
class Schedule {
 public:
  Schedule() = default;
  explicit Schedule(std::vector<RateCurve> pieces);

  /// The rate of the step after `step` steps.
  double lr_at(double base_lr, int64_t step) const;
  /// The same for a base rate of 1.
  double at(int64_t step) const { return lr_at(1, step); }

  /// This schedule after `steps` steps in which the rate rises linearly from `start` times the base
  /// rate to the base rate itself.
  Schedule warmup(int64_t steps, double start = 1.0 / 3) const;

  const std::vector<RateCurve>& pieces() const { return pieces_; }
  bool operator==(const Schedule&) const = default;

 private:
  std::vector<RateCurve> pieces_;  ///< at most kRateCurves
};

/// The base rate throughout.
Schedule constant();

struct ConstantFactorOptions {
  double factor = 1.0 / 3;
  int64_t steps = 5;
};
/// Times a factor for so many steps, the base rate after them.
Schedule constant_factor(const ConstantFactorOptions& options);

struct StepOptions {
  int64_t every = 1;
  double gamma = 0.1;
};
/// Times gamma after every so many steps.
Schedule step(const StepOptions& options);

struct MultiStepOptions {
  std::vector<int64_t> milestones;  ///< at most 32, in ascending order
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
/// The same, but after `steps` it rises again along the cosine: PyTorch's CosineAnnealingLR.
Schedule cosine_periodic(const CosineOptions& options);

struct CosineRestartsOptions {
  int64_t steps;      ///< of the first period
  int64_t grows = 1;  ///< each period is so many times as long as the one before
  double min_lr = 0;
};
/// From the base rate to min_lr along half a cosine, and anew after each period.
Schedule cosine_restarts(const CosineRestartsOptions& options);

struct LinearOptions {
  int64_t steps;
  double start = 1;
  double end = 0;
};
/// From `start` times the base rate to `end` times it along a line; after `steps` it stays there.
Schedule linear(const LinearOptions& options);

struct PolynomialOptions {
  int64_t steps;
  double power = 1;
};
/// Times (1 - step / steps)^power; after `steps` zero.
Schedule polynomial(const PolynomialOptions& options);

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
  bool lines = false;             ///< along lines, not half cosines
  bool three_phase = false;       ///< falls to the first rate as it rose, then to the last
};
/// PyTorch's OneCycleLR with the base rate as the highest. Momentum is left alone. After `steps`
/// the rate stays at the last.
Schedule one_cycle(const OneCycleOptions& options);

enum class CyclicMode : uint8_t {
  triangular,   ///< every cycle as high
  triangular2,  ///< half as high as the one before
  exp_range,    ///< times gamma^step
};
struct CyclicOptions {
  double low;  ///< the lowest rate as a part of the base rate, which is the highest
  int64_t steps_up = 2000;
  int64_t steps_down = 0;  ///< as many as up where 0
  CyclicMode mode = CyclicMode::triangular;
  double gamma = 1;
};
/// Up and down along lines, again and again: PyTorch's CyclicLR.
Schedule cyclic(const CyclicOptions& options);

struct TimeDecayOptions {
  double decay;
};
/// lr / (1 + decay * step).
Schedule time_decay(const TimeDecayOptions& options);

/// One schedule after the other: the one of place k + 1 begins, from its own step 0, after
/// milestones[k] steps.
Schedule sequential(const std::vector<Schedule>& schedules, const std::vector<int64_t>& milestones);
/// All at once: each works on the rate that those before it give.
Schedule chained(const std::vector<Schedule>& schedules);

}  // namespace mica::optim
