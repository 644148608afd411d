#include "mica/optim/schedule.h"

#include <algorithm>
#include <cmath>

#include "mica/core/check.h"
#include "mica/ops/schedule_lr/rate_at.h"

namespace mica::optim {
namespace {

void check_steps(const char* who, int64_t steps) {
  check(steps >= 1, "optim::{}: expected at least 1 step, got {}", who, steps);
}

void check_gamma(const char* who, double gamma) {
  check(gamma >= 0 && std::isfinite(gamma), "optim::{}: gamma must not be negative, got {}", who,
        gamma);
}

void check_min_lr(const char* who, double min_lr) {
  check(min_lr >= 0, "optim::{}: min_lr must not be negative, got {}", who, min_lr);
}

Schedule single(const RateCurve& piece) { return Schedule({piece}); }

}  // namespace

double Schedule::lr_at(double base_lr, int64_t step) const {
  return rate_at(pieces_.data(), static_cast<int64_t>(pieces_.size()), base_lr, step);
}

Schedule::Schedule(std::vector<RateCurve> pieces) : pieces_(std::move(pieces)) {
  check(pieces_.size() <= kRateCurves, "optim::Schedule: expected at most {} pieces, got {}",
        static_cast<int>(kRateCurves), pieces_.size());
}

Schedule Schedule::warmup(int64_t steps, double start) const {
  check_steps("warmup", steps);
  check(start >= 0 && start <= 1, "optim::warmup: start must be in [0, 1], got {}", start);
  return sequential({linear({.steps = steps, .start = start, .end = 1}), *this}, {steps});
}

Schedule constant() { return {}; }

Schedule constant_factor(const ConstantFactorOptions& options) {
  check(options.steps >= 0, "optim::constant_factor: steps must not be negative, got {}",
        options.steps);
  check_gamma("constant_factor", options.factor);
  return single({.kind = RateCurve::factor,
                 .steps = static_cast<double>(options.steps),
                 .gamma = options.factor});
}

Schedule step(const StepOptions& options) {
  check_steps("step", options.every);
  check_gamma("step", options.gamma);
  return single({.kind = RateCurve::step,
                 .steps = static_cast<double>(options.every),
                 .gamma = options.gamma});
}

Schedule multi_step(const MultiStepOptions& options) {
  const std::vector<int64_t>& m = options.milestones;
  check(m.size() <= kRateCurves, "optim::multi_step: expected at most {} milestones, got {}",
        static_cast<int>(kRateCurves), m.size());
  check(std::is_sorted(m.begin(), m.end()) && (m.empty() || m[0] >= 0),
        "optim::multi_step: expected milestones in ascending order");
  check_gamma("multi_step", options.gamma);
  std::vector<RateCurve> pieces;
  for (const int64_t milestone : m)
    pieces.push_back({.kind = RateCurve::factor,
                      .begin = static_cast<double>(milestone),
                      .chained = 1,
                      .steps = RateCurve::kNever,
                      .gamma = options.gamma});
  return Schedule(std::move(pieces));
}

Schedule exponential(const ExponentialOptions& options) {
  check_gamma("exponential", options.gamma);
  return single({.kind = RateCurve::exponential, .gamma = options.gamma});
}

Schedule cosine(const CosineOptions& options) {
  check_steps("cosine", options.steps);
  check_min_lr("cosine", options.min_lr);
  return single({.kind = RateCurve::cosine,
                 .steps = static_cast<double>(options.steps),
                 .min_lr = options.min_lr});
}

Schedule cosine_periodic(const CosineOptions& options) {
  check_steps("cosine_periodic", options.steps);
  check_min_lr("cosine_periodic", options.min_lr);
  return single({.kind = RateCurve::cosine_periodic,
                 .steps = static_cast<double>(options.steps),
                 .min_lr = options.min_lr});
}

Schedule cosine_restarts(const CosineRestartsOptions& options) {
  check_steps("cosine_restarts", options.steps);
  check(options.grows >= 1, "optim::cosine_restarts: grows must be at least 1, got {}",
        options.grows);
  check_min_lr("cosine_restarts", options.min_lr);
  return single({.kind = RateCurve::cosine_restarts,
                 .steps = static_cast<double>(options.steps),
                 .min_lr = options.min_lr,
                 .power = static_cast<double>(options.grows)});
}

Schedule linear(const LinearOptions& options) {
  check_steps("linear", options.steps);
  check(options.start >= 0 && options.end >= 0,
        "optim::linear: start and end must not be negative, got {} and {}", options.start,
        options.end);
  return single({.kind = RateCurve::linear,
                 .steps = static_cast<double>(options.steps),
                 .start = options.start,
                 .end = options.end});
}

Schedule polynomial(const PolynomialOptions& options) {
  check_steps("polynomial", options.steps);
  check(options.power >= 0 && std::isfinite(options.power),
        "optim::polynomial: power must not be negative, got {}", options.power);
  return single({.kind = RateCurve::polynomial,
                 .steps = static_cast<double>(options.steps),
                 .power = options.power});
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
  return single({.kind = RateCurve::one_cycle,
                 .mode = options.three_phase ? RateCurve::kSecond : RateCurve::kPlain,
                 .steps = static_cast<double>(options.steps),
                 .rise = options.pct_start,
                 .start = 1 / options.div_factor,
                 .end = 1 / options.div_factor / options.final_div_factor,
                 .power = options.lines ? 0.0 : 1.0});
}

Schedule cyclic(const CyclicOptions& options) {
  check_steps("cyclic", options.steps_up);
  check(options.steps_down >= 0, "optim::cyclic: steps_down must not be negative, got {}",
        options.steps_down);
  check(options.low >= 0 && std::isfinite(options.low),
        "optim::cyclic: low must not be negative, got {}", options.low);
  check_gamma("cyclic", options.gamma);
  return single({.kind = RateCurve::cyclic,
                 .mode = static_cast<double>(options.mode),
                 .steps = static_cast<double>(options.steps_up),
                 .gamma = options.gamma,
                 .start = options.low,
                 .power = static_cast<double>(options.steps_down > 0 ? options.steps_down
                                                                     : options.steps_up)});
}

Schedule time_decay(const TimeDecayOptions& options) {
  check(options.decay >= 0 && std::isfinite(options.decay),
        "optim::time_decay: decay must not be negative, got {}", options.decay);
  return single({.kind = RateCurve::time_decay, .gamma = options.decay});
}

Schedule sequential(const std::vector<Schedule>& schedules,
                    const std::vector<int64_t>& milestones) {
  check(!schedules.empty() && milestones.size() + 1 == schedules.size(),
        "optim::sequential: expected one milestone fewer than schedules, got {} and {}",
        milestones.size(), schedules.size());
  check(std::is_sorted(milestones.begin(), milestones.end()) &&
            (milestones.empty() || milestones[0] >= 0),
        "optim::sequential: expected milestones in ascending order");
  std::vector<RateCurve> pieces = schedules[0].pieces();
  for (size_t i = 1; i < schedules.size(); ++i) {
    const auto begin = static_cast<double>(milestones[i - 1]);
    // A first piece that works on the base rate leaves those before it behind.
    const std::vector<RateCurve>& next = schedules[i].pieces();
    if (next.empty() || next[0].chained == 1 || next[0].begin > 0)
      pieces.push_back({.kind = RateCurve::factor, .begin = begin});
    for (RateCurve piece : next) {
      piece.begin += begin;
      pieces.push_back(piece);
    }
  }
  return Schedule(std::move(pieces));
}

Schedule chained(const std::vector<Schedule>& schedules) {
  check(!schedules.empty(), "optim::chained: expected schedules, got none");
  std::vector<RateCurve> pieces = schedules[0].pieces();
  for (size_t i = 1; i < schedules.size(); ++i)
    for (RateCurve piece : schedules[i].pieces()) {
      check<Unsupported>(piece.chained == 1 || piece.begin == 0,
                         "optim::chained: a schedule of several in a row can only come first");
      piece.chained = 1;
      pieces.push_back(piece);
    }
  return Schedule(std::move(pieces));
}

}  // namespace mica::optim
