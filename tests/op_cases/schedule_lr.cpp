#include <cmath>

#include "mica/optim/schedule.h"
#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

std::vector<double> numbers_of(const optim::Schedule& schedule) {
  const RateCurve& curve = schedule.curve();
  const auto* first = reinterpret_cast<const double*>(&curve);
  return {first, first + kRateCurveNumbers};
}

/// Results: the count of steps and the rates. `factor` is what a base rate of 1 becomes.
Sample after(const char* name, const optim::Schedule& schedule, int64_t steps,
             std::vector<double> base, double factor) {
  const Shape groups = {static_cast<int64_t>(base.size())};
  return {.name = name,
          .in = {x({kRateCurveNumbers}).of(numbers_of(schedule)).as<DType::f64>(),
                 x(groups).of(std::move(base)).as<DType::f64>(),
                 x({}).of({static_cast<double>(steps)}).as<DType::i64>()},
          .call =
              [=](const Args& a) {
                const Tensor count = clone(a[2]);
                const Tensor lr = zeros(groups, {DType::f64, a.device});
                schedule_lr(a[0], a[1], count, lr);
                return Tensors{count, lr};
              },
          .oracle =
              [=](const HostArgs& in) {
                HostArray lr = in[1];
                for (double& rate : lr.values) rate *= factor;
                return std::vector<HostArray>{{{}, {static_cast<double>(steps + 1)}}, lr};
              },
          .dtypes = {DType::f64},
          .gradient = false,
          .layouts = false};
}

OpCase schedule_lr_case() {
  const double pi = std::acos(-1.0);
  const std::vector<double> two = {0.5, 0.25};
  return {
      .op = "schedule_lr",
      .samples =
          {after("constant", optim::constant(), 7, two, 1),
           after("no groups", optim::constant(), 7, {}, 1),
           after("one group", optim::constant(), 0, {0.1}, 1),
           after("step", optim::step({.every = 3, .gamma = 0.5}), 7, two, 0.25),
           after("multi step", optim::multi_step({.milestones = {2, 7, 9}}), 7, two, 0.01),
           after("exponential", optim::exponential({.gamma = 0.9}), 7, two, std::pow(0.9, 7)),
           after("cosine", optim::cosine({.steps = 20}), 7, two, (1 + std::cos(pi * 7 / 20)) / 2),
           after("after a cosine", optim::cosine({.steps = 20}), 70, two, 0),
           after("linear", optim::linear({.steps = 20}), 7, two, 13.0 / 20),
           after("warm-up", optim::linear({.steps = 20}).warmup(10, 0.1), 7, two, 0.73),
           after("after a warm-up", optim::linear({.steps = 20}).warmup(10, 0.1), 15, two, 0.75),
           after("one cycle, rising", optim::one_cycle({.steps = 20}), 2, two,
                 1 + (0.04 - 1) / 2 * (1 + std::cos(pi * 2 / 5))),
           after("one cycle, falling", optim::one_cycle({.steps = 20}), 7, two,
                 4e-6 + (1 - 4e-6) / 2 * (1 + std::cos(pi * 2 / 14))),
           after("time decay", optim::time_decay({.decay = 0.5}), 7, two, 1 / 4.5)},
      .bad = {bad<ShapeError>("schedule_lr: the curve must be f64[17], got f64[3]",
                              [](Device d) {
                                const TensorOptions o{DType::f64, d};
                                schedule_lr(zeros({3}, o), zeros({1}, o),
                                            zeros({}, {DType::i64, d}), zeros({1}, o));
                              }),
              bad<ShapeError>("schedule_lr: lr must be like base_lr f64[1]", [](Device d) {
                const TensorOptions o{DType::f64, d};
                schedule_lr(to_tensor({}, d), zeros({1}, o), zeros({}, {DType::i64, d}),
                            zeros({2}, o));
              })}};
}

const Room kRoom([] { return std::vector<OpCase>{schedule_lr_case()}; });

}  // namespace
}  // namespace mica::cases
