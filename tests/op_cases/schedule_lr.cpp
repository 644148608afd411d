#include <cmath>

#include "mica/optim/schedule.h"
#include "tests/op_cases/op_case.h"

namespace mica::cases {
namespace {

std::vector<double> numbers_of(const optim::Schedule& schedule) {
  return to_tensor(schedule.pieces()).to_vector<double>();
}

/// Results: the count of steps, the number of this one and the rates. `factor` is what a base rate
/// of 1 becomes.
Sample after(const char* name, const optim::Schedule& schedule, int64_t steps,
             std::vector<double> base, double factor) {
  const Shape groups = {static_cast<int64_t>(base.size())};
  return {.name = name,
          .in = {x({kRateCurves, kRateCurveNumbers}).of(numbers_of(schedule)).as<DType::f64>(),
                 x(groups).of(std::move(base)).as<DType::f64>(),
                 x({}).of({static_cast<double>(steps)}).as<DType::i64>()},
          .call =
              [=](const Args& a) {
                const StepCount count{clone(a[2]), zeros({}, {DType::i64, a.device})};
                const Tensor lr = zeros(groups, {DType::f64, a.device});
                schedule_lr(a[0], a[1], count, lr);
                return Tensors{count.steps, count.number, lr};
              },
          .oracle =
              [=](const HostArgs& in) {
                HostArray lr = in[1];
                for (double& rate : lr.values) rate *= factor;
                const HostArray next{{}, {static_cast<double>(steps + 1)}};
                return std::vector<HostArray>{next, next, lr};
              },
          .dtypes = {DType::f64},
          .gradient = false,
          .layouts = false};
}

/// With a flag: results as above.
Sample where(const char* name, bool on) {
  return {.name = name,
          .in = {x({kRateCurves, kRateCurveNumbers})
                     .of(numbers_of(optim::exponential({.gamma = 0.5})))
                     .as<DType::f64>(),
                 x({1}).of({8}).as<DType::f64>(), x({}).of({2}).as<DType::i64>(),
                 x({}).of({on ? 1.0 : 0.0}).as<DType::boolean>()},
          .call =
              [](const Args& a) {
                const StepCount count{clone(a[2]), full({}, 7, {DType::i64, a.device})};
                const Tensor lr = full({1}, 5, {DType::f64, a.device});
                schedule_lr(a[0], a[1], count, lr, a[3]);
                return Tensors{count.steps, count.number, lr};
              },
          .oracle =
              [on](const HostArgs&) {
                return std::vector<HostArray>{
                    {{}, {on ? 3.0 : 2.0}}, {{}, {on ? 3.0 : 0.0}}, {{1}, {on ? 2.0 : 5.0}}};
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
      .samples = {where("where the flag is set", true),
                  where("where it is not", false),
                  after("constant", optim::constant(), 7, two, 1),
                  after("no groups", optim::constant(), 7, {}, 1),
                  after("one group", optim::constant(), 0, {0.1}, 1),
                  after("step", optim::step({.every = 3, .gamma = 0.5}), 7, two, 0.25),
                  after("multi step", optim::multi_step({.milestones = {2, 7, 9}}), 7, two, 0.01),
                  after("exponential", optim::exponential({.gamma = 0.9}), 7, two,
                        std::pow(0.9, 7)),
                  after("cosine", optim::cosine({.steps = 20}), 7, two,
                        (1 + std::cos(pi * 7 / 20)) / 2),
                  after("after a cosine", optim::cosine({.steps = 20}), 70, two, 0),
                  after("linear", optim::linear({.steps = 20}), 7, two, 13.0 / 20),
                  after("warm-up", optim::linear({.steps = 20}).warmup(10, 0.1), 7, two, 0.73),
                  after("after a warm-up", optim::linear({.steps = 20}).warmup(10, 0.1), 15, two,
                        0.75),
                  after("one cycle, rising", optim::one_cycle({.steps = 20}), 2, two,
                        1 + (0.04 - 1) / 2 * (1 + std::cos(pi * 2 / 5))),
                  after("one cycle, falling", optim::one_cycle({.steps = 20}), 7, two,
                        4e-6 + (1 - 4e-6) / 2 * (1 + std::cos(pi * 2 / 14))),
                  after("cyclic", optim::cyclic({.low = 0.5, .steps_up = 2, .steps_down = 4}), 7,
                        two, 0.75),
                  after("restarts", optim::cosine_restarts({.steps = 3, .grows = 2}), 6, two,
                        (1 + std::cos(pi * 3 / 6)) / 2),
                  after(
                      "three in a row",
                      optim::sequential({optim::constant(), optim::step({.every = 2, .gamma = 0.5}),
                                         optim::constant_factor({.factor = 0.1})},
                                        {2, 20}),
                      7, two, 0.25),
                  after("at once",
                        optim::chained({optim::exponential({.gamma = 0.5}),
                                        optim::multi_step({.milestones = {1, 2}, .gamma = 0.5})}),
                        3, two, 1.0 / 32),
                  after("time decay", optim::time_decay({.decay = 0.5}), 7, two, 1 / 4.5)},
      .bad = {bad<ShapeError>("schedule_lr: the curve must be f64[32, 11], got f64[3]",
                              [](Device d) {
                                const TensorOptions o{DType::f64, d};
                                const Tensor n = zeros({}, {DType::i64, d});
                                schedule_lr(zeros({3}, o), zeros({1}, o), {n, n}, zeros({1}, o));
                              }),
              bad<ShapeError>("schedule_lr: lr must be like base_lr f64[1]", [](Device d) {
                const TensorOptions o{DType::f64, d};
                const Tensor n = zeros({}, {DType::i64, d});
                schedule_lr(to_tensor({}, d), zeros({1}, o), {n, n}, zeros({2}, o));
              })}};
}

const Room kRoom([] { return std::vector<OpCase>{schedule_lr_case()}; });

}  // namespace
}  // namespace mica::cases
