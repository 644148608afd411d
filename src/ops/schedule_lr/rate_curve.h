#pragma once

#include <cstdint>
#include <limits>

#include "mica/ops/elementwise/math.h"

namespace mica {

/// A learning rate as a function of the number of steps done. It is numbers alone, so that it can
/// lie in device memory as an f64 tensor; optim/schedule.h makes them.
struct RateCurve {
  enum Kind { constant, step, multi_step, exponential, cosine, linear, one_cycle, time_decay };
  static constexpr int kMilestones = 8;

  double kind = constant;
  double warmup_steps = 0;  ///< before the curve begins
  double warmup_start = 1;  ///< the first factor of the rate in them
  double steps = 1;         ///< the length of the curve, or of one stair
  double gamma = 1;         ///< factor of each stair or step; of time_decay the decay
  double min_lr = 0;        ///< where a cosine ends
  double rise = 0;          ///< of one_cycle: the part of the steps in which the rate rises
  double start = 1;         ///< of one_cycle: the first factor, and
  double end = 1;           ///< the last
  double milestones[kMilestones] = {kNever, kNever, kNever, kNever, kNever, kNever, kNever, kNever};

  static constexpr double kNever = std::numeric_limits<double>::infinity();
  bool operator==(const RateCurve&) const = default;
};
inline constexpr int64_t kRateCurveNumbers = sizeof(RateCurve) / sizeof(double);

namespace detail {

/// From a at 0 to b at 1 along half a cosine.
MICA_PORTABLE inline double cosine_between(double a, double b, double part) {
  return b + (a - b) / 2 * (1 + math::cos(3.14159265358979323846 * part));
}
MICA_PORTABLE inline double part_of(double t, double whole) { return t < whole ? t / whole : 1; }

}  // namespace detail

/// The learning rate of the step after `done` steps, for the base rate `lr`.
MICA_PORTABLE inline double rate_at(const RateCurve& c, double lr, int64_t done) {
  double t = static_cast<double>(done);
  if (t < c.warmup_steps)
    return lr * (c.warmup_start + (1 - c.warmup_start) * (t / c.warmup_steps));
  t -= c.warmup_steps;
  // What was read from a file may be anything.
  const bool known = c.kind >= 0 && c.kind <= static_cast<double>(RateCurve::time_decay);
  switch (known ? static_cast<int>(c.kind) : int{RateCurve::constant}) {
    case RateCurve::step:
      return lr * math::pow(c.gamma, math::floor(t / c.steps));
    case RateCurve::multi_step: {
      double passed = 0;
      for (const double milestone : c.milestones) passed += t >= milestone ? 1 : 0;
      return lr * math::pow(c.gamma, passed);
    }
    case RateCurve::exponential:
      return lr * math::pow(c.gamma, t);
    case RateCurve::cosine:
      return detail::cosine_between(lr, c.min_lr, detail::part_of(t, c.steps));
    case RateCurve::linear:
      return t < c.steps ? lr * ((c.steps - t) / c.steps) : 0;
    case RateCurve::one_cycle: {
      const double peak = c.rise * c.steps - 1;
      const double last = c.steps - 1;
      return t <= peak
                 ? detail::cosine_between(lr * c.start, lr, detail::part_of(t, peak))
                 : detail::cosine_between(lr, lr * c.end, detail::part_of(t - peak, last - peak));
    }
    case RateCurve::time_decay:
      return lr / (1 + c.gamma * t);
    default:
      return lr;
  }
}

}  // namespace mica
