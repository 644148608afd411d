#include "mica/optim/lr_scheduler.h"

#include <gtest/gtest.h>

#include "mica/mica.h"
#include "tests/device.h"
#include "tests/unit/expect_error.h"
#include "tests/unit/golden/optim.h"

namespace mica {
namespace {

using optim::LRScheduler;
using optim::ReduceLROnPlateau;
using optim::SGD;

Tensor weight() { return zeros({1}, {.device = test::device()}).set_requires_grad(); }

/// Calls `step` once eagerly or many times compiled: the same function either way.
std::function<void()> maybe_compiled(bool compiled, const std::function<void()>& step,
                                     std::shared_ptr<CompiledFunction>& function) {
  if (!compiled) return step;
  function = std::make_shared<CompiledFunction>([step](std::span<const Tensor>) {
    step();
    return Tensors{};
  });
  return [function] { (*function)({}); };
}

TEST(LRScheduler, AdvancesWhenItIsTold) {
  for (const bool compiled : {false, true}) {
    const Tensor w = weight();
    SGD optimizer({w}, {.lr = 0.4});
    LRScheduler scheduler(optimizer, optim::step({.every = 4, .gamma = 0.5}));
    std::shared_ptr<CompiledFunction> function;
    const auto step = maybe_compiled(
        compiled,
        [&] {
          optimizer.zero_grad();
          sum(w).backward();
          optimizer.step();
          optimizer.step();
          scheduler.step();
        },
        function);
    double want = 0;
    for (size_t i = 0; i < 20; ++i) {
      EXPECT_NEAR(optimizer.lr(), golden::kStep[i], 1e-14) << compiled << " " << i;
      EXPECT_EQ(optimizer.current_lr(), optimizer.lr());
      EXPECT_EQ(scheduler.last_epoch(), static_cast<int64_t>(i));
      step();
      want -= 2 * golden::kStep[i];
      EXPECT_NEAR(w.item(), want, 1e-5);
    }
    if (compiled) {
      EXPECT_EQ(function->captures(), 1);
    }
  }
}

TEST(LRScheduler, GoesOnFromItsState) {
  SGD optimizer({weight()}, {.lr = 0.4});
  LRScheduler scheduler(optimizer, optim::cosine_periodic({.steps = 7, .min_lr = 0.02}));
  for (int i = 0; i < 5; ++i) scheduler.step();
  SGD other({weight()}, {.lr = 3});
  LRScheduler resumed(other, scheduler.schedule());
  resumed.load_state_dict(scheduler.state_dict());
  LRScheduler later(optimizer, scheduler.schedule(), 4);  // as if it had been called so often
  EXPECT_EQ(later.get_last_lr(), resumed.get_last_lr());
  for (size_t i = 6; i < 20; ++i) {
    resumed.step();
    later.step();
    EXPECT_NEAR(other.lr(), golden::kCosinePeriodic[i], 1e-14);
    EXPECT_EQ(resumed.get_last_lr(), later.get_last_lr());
  }
}

TEST(LRScheduler, StartsFromTheRatesBeforeTheFirst) {
  SGD optimizer({{.parameters = {weight()}, .options = {.lr = 0.4}},
                 {.parameters = {weight()}, .options = {.lr = 0.2}}});
  const LRScheduler first(optimizer, optim::linear({.steps = 5, .start = 0.1, .end = 1}));
  LRScheduler second(optimizer, optim::exponential({.gamma = 0.5}));
  EXPECT_EQ(second.get_last_lr(), (std::vector<double>{0.4, 0.2}));
  second.step();
  EXPECT_EQ(second.get_last_lr(), (std::vector<double>{0.2, 0.1}));
  optimizer.add_param_group({.parameters = {weight()}, .options = {.lr = 0.8}});
  second.step();
  EXPECT_EQ(second.get_last_lr(), (std::vector<double>{0.1, 0.05, 0.2}));
}

TEST(LRScheduler, RefusesToBeOneOfTwo) {
  SGD optimizer({weight()}, {.lr = 0.4});
  LRScheduler first(optimizer, optim::exponential({.gamma = 0.5}));
  const LRScheduler second(optimizer, optim::exponential({.gamma = 0.9}));
  expect_error<Error>("another scheduler of this optimizer was made after it",
                      [&] { first.step(); });
  SGD scheduled({weight()});
  scheduled.set_schedule(optim::cosine({.steps = 5}));
  expect_error<Error>("the optimizer follows a schedule of its own",
                      [&] { LRScheduler(scheduled, optim::constant()); });
}

TEST(ReduceLROnPlateau, IsThatOfPyTorch) {
  const auto expect = [](const std::vector<double>& want, const optim::PlateauOptions& options) {
    for (const bool compiled : {false, true}) {
      SGD optimizer({weight()}, {.lr = 0.4});
      ReduceLROnPlateau scheduler(optimizer, options);
      auto step = compile([&](const Tensor& metric) {
        scheduler.step(metric);
        return metric;
      });
      for (size_t i = 0; i < want.size(); ++i) {
        if (compiled) {
          step(full({}, golden::kMetrics[i], {.dtype = DType::f64, .device = test::device()}));
        } else {
          scheduler.step(golden::kMetrics[i]);
        }
        EXPECT_NEAR(optimizer.lr(), want[i], 1e-14) << "epoch " << i;
      }
    }
  };
  expect(golden::kPlateauDefaults, {.patience = 2});
  expect(golden::kPlateauEverything, {.larger_is_better = true,
                                      .factor = 0.5,
                                      .patience = 1,
                                      .threshold = 0.05,
                                      .absolute = true,
                                      .cooldown = 2,
                                      .min_lr = 0.03});
}

}  // namespace
}  // namespace mica
