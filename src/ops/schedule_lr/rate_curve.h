#pragma once

#include <cstdint>
#include <limits>

namespace mica {

/// A learning rate as a function of the number of steps done, or a piece of one. It is numbers
/// alone, so that pieces can lie in device memory as an f64 tensor; optim/schedule.h makes them.
struct RateCurve {
  enum Kind {
    none,  ///< no piece: the list has come to its end
    factor,
    step,
    exponential,
    cosine,
    cosine_periodic,
    cosine_restarts,
    linear,
    polynomial,
    one_cycle,
    cyclic,
    time_decay,
  };
  /// Variants of one_cycle and cyclic.
  static constexpr double kPlain = 0;
  static constexpr double kSecond = 1;
  static constexpr double kThird = 2;

  double kind = none;
  double mode = kPlain;
  double begin = 0;    ///< the steps before the piece; it counts from there
  double chained = 0;  ///< 1: works on the rate of the pieces before it, else on the base rate
  double steps = 1;    ///< the length of the curve, or of one stair, or of the way up
  double gamma = 1;    ///< factor of each stair or step; of time_decay the decay
  double min_lr = 0;   ///< where a cosine ends
  double rise = 0;     ///< of one_cycle: the part of the steps in which the rate rises
  double start = 1;    ///< the first factor of the rate, and
  double end = 1;      ///< the last
  double power = 1;    ///< of polynomial; of restarts the growth of periods; of cyclic the length
                       ///< of the way down; of one_cycle 0 for lines in place of cosines

  static constexpr double kNever = std::numeric_limits<double>::infinity();
  bool operator==(const RateCurve&) const = default;
};
inline constexpr int64_t kRateCurveNumbers = sizeof(RateCurve) / sizeof(double);
inline constexpr int64_t kRateCurves = 32;  ///< pieces in the tensor of a schedule

}  // namespace mica
