#include "mica/optim/schedule.h"

#include <algorithm>
#include <cmath>

#include "mica/core/check.h"

namespace mica::optim {
namespace {

void check_steps(const char* who, int64_t steps) {
  check(steps >= 1, "optim::{}: expected at least 1 step, got {}", who, steps);
}

void check_gamma(const char* who, double gamma) {
  check(gamma >= 0 && std::isfinite(gamma), "optim::{}: gamma must not be negative, got {}", who,
        gamma);
}

}  // namespace

Schedule Schedule::warmup(int64_t steps, double start) const {
  check_steps("warmup", steps);
  check(start >= 0 && start <= 1, "optim::warmup: start must be in [0, 1], got {}", start);
  check(curve_.warmup_steps == 0, "optim::warmup: the schedule has a warm-up of {} steps already",
        curve_.warmup_steps);
  RateCurve curve = curve_;
  curve.warmup_steps = static_cast<double>(steps);
  curve.warmup_start = start;
  return Schedule(curve);
}

Schedule constant() { return {}; }

Schedule step(const StepOptions& options) {
  check_steps("step", options.every);
  check_gamma("step", options.gamma);
  return Schedule({.kind = RateCurve::step,
                   .steps = static_cast<double>(options.every),
                   .gamma = options.gamma});
}

Schedule multi_step(const MultiStepOptions& options) {
  const std::vector<int64_t>& m = options.milestones;
  check(m.size() <= RateCurve::kMilestones,
        "optim::multi_step: expected at most {} milestones, got {}",
        static_cast<int>(RateCurve::kMilestones), m.size());
  check(std::is_sorted(m.begin(), m.end()) && (m.empty() || m[0] >= 0),
        "optim::multi_step: expected milestones in ascending order");
  check_gamma("multi_step", options.gamma);
  RateCurve curve{.kind = RateCurve::multi_step, .gamma = options.gamma};
  std::copy(m.begin(), m.end(), curve.milestones);
  return Schedule(curve);
}

Schedule exponential(const ExponentialOptions& options) {
  check_gamma("exponential", options.gamma);
  return Schedule({.kind = RateCurve::exponential, .gamma = options.gamma});
}

Schedule cosine(const CosineOptions& options) {
  check_steps("cosine", options.steps);
  check(options.min_lr >= 0, "optim::cosine: min_lr must not be negative, got {}", options.min_lr);
  return Schedule({.kind = RateCurve::cosine,
                   .steps = static_cast<double>(options.steps),
                   .min_lr = options.min_lr});
}

Schedule linear(const LinearOptions& options) {
  check_steps("linear", options.steps);
  return Schedule({.kind = RateCurve::linear, .steps = static_cast<double>(options.steps)});
}

Schedule warmup(const WarmupOptions& options) {
  return options.then.warmup(options.steps, options.start);
}

Schedule one_cycle(const OneCycleOptions& options) {
  check_steps("one_cycle", options.steps);
  check(options.pct_start >= 0 && options.pct_start <= 1,
        "optim::one_cycle: pct_start must be in [0, 1], got {}", options.pct_start);
  check(options.div_factor > 0 && options.final_div_factor > 0,
        "optim::one_cycle: div_factor and final_div_factor must be positive, got {} and {}",
        options.div_factor, options.final_div_factor);
  return Schedule({.kind = RateCurve::one_cycle,
                   .steps = static_cast<double>(options.steps),
                   .rise = options.pct_start,
                   .start = 1 / options.div_factor,
                   .end = 1 / options.div_factor / options.final_div_factor});
}

Schedule time_decay(const TimeDecayOptions& options) {
  check(options.decay >= 0 && std::isfinite(options.decay),
        "optim::time_decay: decay must not be negative, got {}", options.decay);
  return Schedule({.kind = RateCurve::time_decay, .gamma = options.decay});
}

}  // namespace mica::optim
