#include "mica/optim/schedule.h"

#include <gtest/gtest.h>

#include "tests/unit/expect_error.h"
#include "tests/unit/optim_problem.h"

namespace mica {
namespace {

TEST(Schedule, AreThoseOfPyTorch) {
  using namespace optim;
  const auto expect = [](const std::string& name, const std::vector<double>& want,
                         const Schedule& schedule) {
    std::vector<double> host(want.size());
    for (size_t i = 0; i < want.size(); ++i) host[i] = schedule.lr_at(0.4, static_cast<int64_t>(i));
    expect_near(host, want, 1e-14, name);
    // What the device computes is tested here through the op, which counts by itself.
    const Tensor base = tensor({0.4}, {1});
    const Tensor lr = clone(base);
    const TensorOptions number{.dtype = DType::i64};
    const StepCount count{zeros({}, number), zeros({}, number)};
    for (const double rate : host) {
      schedule_lr(to_tensor(schedule.pieces()), base, count, lr);
      EXPECT_NEAR(lr.item(), rate, 1e-14) << name << ", step " << count.number.item();
    }
  };
  expect("step", golden::kStep, step({.every = 4, .gamma = 0.5}));
  expect("multi_step", golden::kMultiStep, multi_step({.milestones = {2, 9, 9, 17}, .gamma = 0.3}));
  expect("exponential", golden::kExponential, exponential({.gamma = 0.93}));
  expect("cosine", golden::kCosine, cosine({.steps = 24, .min_lr = 0.02}));
  expect("linear", golden::kLinear, linear({.steps = 20}));
  expect("warmup", golden::kWarmup, warmup({.steps = 8}));
  expect("warmup, then cosine", golden::kWarmupCosine,
         warmup({.steps = 5, .start = 0.1, .then = cosine({.steps = 20})}));
  expect("one_cycle", golden::kOneCycle, one_cycle({.steps = 25}));
  expect("one_cycle with options", golden::kOneCycleOptions,
         one_cycle({.steps = 25, .pct_start = 0.5, .div_factor = 10, .final_div_factor = 100}));
  expect("constant_factor", golden::kConstantFactor, constant_factor({.factor = 0.2, .steps = 7}));
  expect("linear with factors", golden::kLinearFactors,
         linear({.steps = 9, .start = 0.2, .end = 0.7}));
  expect("polynomial", golden::kPolynomial, polynomial({.steps = 11, .power = 1.7}));
  expect("cosine_periodic", golden::kCosinePeriodic, cosine_periodic({.steps = 7, .min_lr = 0.02}));
  expect("cosine_restarts", golden::kCosineRestarts,
         cosine_restarts({.steps = 3, .grows = 2, .min_lr = 0.02}));
  expect("cosine_restarts of one length", golden::kCosineRestartsEven,
         cosine_restarts({.steps = 6}));
  expect("cyclic", golden::kCyclicTriangular,
         cyclic({.low = 0.25, .steps_up = 3, .steps_down = 5}));
  expect("cyclic, halved", golden::kCyclicTriangular2,
         cyclic({.low = 0.25, .steps_up = 4, .mode = CyclicMode::triangular2}));
  expect("cyclic, shrinking", golden::kCyclicExpRange,
         cyclic({.low = 0.25, .steps_up = 4, .mode = CyclicMode::exp_range, .gamma = 0.9}));
  expect("one_cycle in three phases", golden::kOneCycleThreePhase,
         one_cycle({.steps = 25, .lines = true, .three_phase = true}));
  expect("chained", golden::kChained,
         chained({constant_factor({.factor = 0.2, .steps = 4}), exponential({.gamma = 0.9}),
                  multi_step({.milestones = {6, 11}, .gamma = 0.5})}));
  expect("sequential", golden::kSequentialThree,
         sequential({constant_factor({.factor = 0.2, .steps = 40}),
                     multi_step({.milestones = {2, 4}, .gamma = 0.5}), exponential({.gamma = 0.9})},
                    {5, 13}));
  expect("time_decay", golden::kTimeDecay, time_decay({.decay = 0.2}));
  expect("constant", std::vector<double>(5, 0.4), constant());
  EXPECT_EQ(cosine({.steps = 20}).warmup(5, 0.1),
            warmup({.steps = 5, .start = 0.1, .then = cosine({.steps = 20})}));
}

TEST(Schedule, StayWhereTheyEnd) {
  using namespace optim;
  EXPECT_EQ(cosine({.steps = 10, .min_lr = 0.1}).at(1000), 0.1);
  EXPECT_EQ(Schedule({RateCurve{.kind = NAN}}).at(3), 1);
  EXPECT_EQ(linear({.steps = 10}).at(1000), 0);
  EXPECT_DOUBLE_EQ(one_cycle({.steps = 10}).at(1000), 4e-6);
  EXPECT_EQ(one_cycle({.steps = 1}).at(0), one_cycle({.steps = 1}).at(9));
  for (const double pct : {0.0, 0.1, 1.0})  // a phase without length
    for (int i = 0; i < 12; ++i)
      EXPECT_TRUE(std::isfinite(one_cycle({.steps = 10, .pct_start = pct}).at(i))) << pct;
}

TEST(Schedule, RefuseBadOptions) {
  using namespace optim;
  expect_error<Error>("optim::cosine: expected at least 1 step, got 0",
                      [] { cosine({.steps = 0}); });
  expect_error<Error>("optim::cosine: min_lr must not be negative, got -1",
                      [] { cosine({.steps = 1, .min_lr = -1}); });
  expect_error<Error>("optim::multi_step: expected at most 32 milestones, got 33",
                      [] { multi_step({.milestones = std::vector<int64_t>(33, 1)}); });
  expect_error<Error>("optim::sequential: expected one milestone fewer than schedules, got 2 and 2",
                      [] { sequential({constant(), constant()}, {1, 2}); });
  expect_error<Unsupported>("optim::chained: a schedule of several in a row can only come first",
                            [] { chained({constant(), constant().warmup(3)}); });
  expect_error<Error>("optim::cyclic: low must not be negative, got -1",
                      [] { cyclic({.low = -1}); });
  expect_error<Error>("optim::Schedule: expected at most 32 pieces, got 33", [] {
    chained({multi_step({.milestones = std::vector<int64_t>(32, 1)}), exponential({.gamma = 1})});
  });
  expect_error<Error>("optim::multi_step: expected milestones in ascending order",
                      [] { multi_step({.milestones = {2, 1}}); });
  expect_error<Error>("optim::step: gamma must not be negative, got -0.5",
                      [] { step({.gamma = -0.5}); });
  expect_error<Error>("optim::warmup: start must be in [0, 1], got 2",
                      [] { constant().warmup(5, 2); });
  expect_error<Error>("optim::one_cycle: pct_start must be in [0, 1], got nan",
                      [] { one_cycle({.steps = 9, .pct_start = NAN}); });
  expect_error<Error>("optim::time_decay: decay must not be negative, got -1",
                      [] { time_decay({.decay = -1}); });
}

}  // namespace
}  // namespace mica
