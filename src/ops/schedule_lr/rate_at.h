#pragma once

#include "mica/ops/elementwise/math.h"
#include "mica/ops/schedule_lr/rate_curve.h"

namespace mica {

namespace detail {

/// From a at 0 to b at 1 along half a cosine.
MICA_PORTABLE inline double cosine_between(double a, double b, double part) {
  return b + (a - b) / 2 * (1 + math::cos(3.14159265358979323846 * part));
}
MICA_PORTABLE inline double part_of(double t, double whole) { return t < whole ? t / whole : 1; }

/// A cosine that starts anew after each period; each is `power` times as long as the one before.
MICA_PORTABLE inline double restarts_at(const RateCurve& c, double lr, double t) {
  double period = c.steps;
  if (c.power > 1) {
    // What was read from a file may be anything: periods grow, but not for ever.
    for (int i = 0; i < 64 && t >= period; ++i, period *= c.power) t -= period;
  } else {
    t -= period * math::floor(t / period);
  }
  return cosine_between(lr, c.min_lr, t / period);
}

/// PyTorch's phases end one step early: the last step of each has its last rate.
MICA_PORTABLE inline double one_cycle_at(const RateCurve& c, double lr, double t) {
  const bool three = c.mode == RateCurve::kSecond;
  const double peak = c.rise * c.steps - 1;
  const double back = three ? 2 * c.rise * c.steps - 2 : c.steps - 1;
  const double last = c.steps - 1;
  const double middle = three ? lr * c.start : lr * c.end;
  const bool up = t <= peak;
  const bool down = !up && (t <= back || !three);
  const double a = up ? lr * c.start : down ? lr : middle;
  const double b = up ? lr : down ? middle : lr * c.end;
  const double part = up     ? part_of(t, peak)
                      : down ? part_of(t - peak, back - peak)
                             : part_of(t - back, last - back);
  return c.power == 0 ? a + (b - a) * part : cosine_between(a, b, part);
}

/// Between start * lr and lr and back. Modes: the same height in every cycle; halved after each;
/// times gamma to the number of steps.
MICA_PORTABLE inline double cyclic_at(const RateCurve& c, double lr, double t) {
  const double total = c.steps + c.power;
  const double cycle = math::floor(1 + t / total);
  const double x = 1 + t / total - cycle;
  const double ratio = c.steps / total;
  const double height = x <= ratio ? x / ratio : (x - 1) / (ratio - 1);
  const double scale = c.mode == RateCurve::kSecond  ? math::pow(2.0, 1 - cycle)
                       : c.mode == RateCurve::kThird ? math::pow(c.gamma, t)
                                                     : 1;
  return lr * c.start + (lr - lr * c.start) * height * scale;
}

/// A piece t steps after it began.
MICA_PORTABLE inline double piece_at(const RateCurve& c, double lr, double t) {
  switch (static_cast<int>(c.kind)) {
    case RateCurve::factor:
      return t < c.steps ? lr * c.gamma : lr;
    case RateCurve::step:
      return lr * math::pow(c.gamma, math::floor(t / c.steps));
    case RateCurve::exponential:
      return lr * math::pow(c.gamma, t);
    case RateCurve::cosine:
      return cosine_between(lr, c.min_lr, part_of(t, c.steps));
    case RateCurve::cosine_periodic:
      return cosine_between(lr, c.min_lr, t / c.steps);
    case RateCurve::cosine_restarts:
      return restarts_at(c, lr, t);
    case RateCurve::linear:
      return lr * (c.start + (c.end - c.start) * part_of(t, c.steps));
    case RateCurve::polynomial:
      return lr * math::pow(1 - part_of(t, c.steps), c.power);
    case RateCurve::one_cycle:
      return one_cycle_at(c, lr, t);
    case RateCurve::cyclic:
      return cyclic_at(c, lr, t);
    case RateCurve::time_decay:
      return lr / (1 + c.gamma * t);
    default:
      return lr;
  }
}

}  // namespace detail

/// The learning rate of the step after `done` steps, for the base rate `lr`. What was read from a
/// file may be anything: an unknown kind ends the list.
MICA_PORTABLE inline double rate_at(const RateCurve* pieces, int64_t count, double lr,
                                    int64_t done) {
  const auto t = static_cast<double>(done);
  double rate = lr;
  for (int64_t i = 0; i < count; ++i) {
    const RateCurve& c = pieces[i];
    if (!(c.kind >= 1 && c.kind <= static_cast<double>(RateCurve::time_decay))) break;
    if (t >= c.begin) rate = detail::piece_at(c, c.chained == 1 ? rate : lr, t - c.begin);
  }
  return rate;
}

}  // namespace mica
