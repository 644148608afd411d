#include "mica/optim/optim.h"

#include <gtest/gtest.h>

#include "tests/unit/expect_error.h"
#include "tests/unit/optim_problem.h"

namespace mica {
namespace {

TEST(Optim, TenStepsAreThoseOfPyTorch) {
  for (const Case& c : cases()) expect_golden(c.name, c.golden, c.make);
}

TEST(Optim, MuonIsThatOfPyTorch) {
  using optim::Muon;
  const auto expect = [](const std::string& name, const std::vector<double>& want,
                         const optim::MuonOptions& options) {
    for (const DType dtype : {DType::f64, DType::f32}) {
      Tensors params = parameters(dtype);
      std::vector<double> v(8);
      for (size_t i = 0; i < v.size(); ++i) v[i] = std::sin(1.7 * (static_cast<int>(i) + 20));
      params[1] = cast(tensor(v, {4, 2}), dtype).set_requires_grad();
      Muon optimizer(params, options);
      for (int i = 0; i < 10; ++i) take_step(params, optimizer);
      expect_near(values_of(params), want, dtype == DType::f64 ? 1e-12 : 2e-5, name);
    }
  };
  expect("defaults", golden::kMuonDefaults, {.lr = 0.05});
  expect("everything", golden::kMuonEverything,
         {.lr = 0.05,
          .weight_decay = 0.2,
          .momentum = 0.8,
          .nesterov = false,
          .ns_steps = 3,
          .scale = optim::MuonScale::match_rms_adamw});
  expect_error<ShapeError>("optim::Muon: parameters must be matrices, got f32[4]",
                           [] { Muon(parameters(DType::f32)); });
}

// Compiled, its means are of squares that were not rounded on their own: the digits are the same,
// not the bits.
TEST(Optim, AdafactorIsThatOfPyTorchEagerAndCompiled) {
  using optim::Adafactor;
  using optim::AdafactorOptions;
  const AdafactorOptions everything = {
      .lr = 0.05, .beta2_decay = -0.5, .eps = {1e-4, 1e-2}, .d = 2, .weight_decay = 0.1};
  expect_golden("defaults", golden::kAdafactorDefaults,
                maker<Adafactor>(AdafactorOptions{.lr = 0.1}));
  expect_golden("everything", golden::kAdafactorEverything, maker<Adafactor>(everything));
  const Tensors params = parameters(DType::f64);
  Adafactor optimizer(params, everything);
  CompiledFunction step([&](std::span<const Tensor>) {
    take_step(params, optimizer);
    return Tensors{};
  });
  for (int i = 0; i < 10; ++i) step({});
  expect_near(values_of(params), golden::kAdafactorEverything, 1e-12, "compiled");
  EXPECT_EQ(step.captures(), 1);
  const StateDict state = optimizer.state_dict();
  EXPECT_EQ(state.at("0.row_var").shape(), Shape({2, 1}));
  EXPECT_EQ(state.at("0.col_var").shape(), Shape({1, 3}));
  EXPECT_EQ(state.at("1.variance").shape(), Shape({4}));
}

TEST(Optim, LbfgsIsThatOfPyTorch) {
  using optim::LBFGS;
  const auto train = [](const Tensors& params, LBFGS& optimizer, int steps) {
    for (int i = 0; i < steps; ++i)
      optimizer.step([&] {
        optimizer.zero_grad();
        Tensor value = loss_of(params);
        for (const Tensor& p : params) value = add(value, sum(square(square(p))));
        value.backward();
        return value;
      });
  };
  const auto expect = [&](const std::string& name, const std::vector<double>& want,
                          const optim::LBFGSOptions& options) {
    const Tensors params = parameters(DType::f64);
    LBFGS optimizer(params, options);
    train(params, optimizer, 3);
    expect_near(values_of(params), want, 1e-9, name);
    EXPECT_EQ(optimizer.steps(), 3);
    // Its history goes with its state.
    Tensors copies;
    for (const Tensor& p : params) copies.push_back(clone(p.detach()).set_requires_grad());
    LBFGS other(copies, options);
    other.load_state_dict(optimizer.state_dict());
    train(params, optimizer, 2);
    train(copies, other, 2);
    EXPECT_EQ(values_of(params), values_of(copies)) << name;
  };
  expect("plain", golden::kLbfgsPlain, {.lr = 0.1, .max_iter = 4});
  expect("strong Wolfe", golden::kLbfgsWolfe,
         {.max_iter = 4, .history_size = 3, .strong_wolfe = true});
  const Tensors params = parameters(DType::f32);
  LBFGS optimizer(params);
  loss_of(params).backward();
  expect_error<Unsupported>("optim::LBFGS: step needs a closure",
                            [&] { static_cast<optim::Optimizer&>(optimizer).step(); });
}

TEST(Optim, ACompiledStepGivesTheBitsOfTheEagerOne) {
  for (const Case& c : cases()) {
    const Tensors eager = parameters(DType::f32);
    const Tensors compiled = parameters(DType::f32);
    const auto first = c.make(eager);
    const auto second = c.make(compiled);
    for (optim::Optimizer* o : {first.get(), second.get()})
      o->set_schedule(optim::cosine({.steps = 40, .min_lr = 1e-4}).warmup(5));
    CompiledFunction step([&](std::span<const Tensor>) {
      take_step(compiled, *second, [](const Tensors& p) { optim::clip_grad_norm_(p, 3); });
      return Tensors{};
    });
    for (int i = 0; i < 50; ++i) {
      take_step(eager, *first, [](const Tensors& p) { optim::clip_grad_norm_(p, 3); });
      step({});
    }
    EXPECT_EQ(values_of(eager), values_of(compiled)) << c.name;
    EXPECT_EQ(second->steps(), 50);
    EXPECT_EQ(step.captures(), 1) << c.name;
  }
}

TEST(Optim, ACompiledStepFollowsTheScheduleAndWhatTheHostSets) {
  const Tensor w = tensor({0.0}, {1}).set_requires_grad();
  optim::SGD optimizer({w}, {.lr = 0.5});
  CompiledFunction step([&](std::span<const Tensor>) {
    optimizer.zero_grad();
    sum(w).backward();  // its gradient is 1
    optimizer.step();
    return Tensors{};
  });
  double want = 0;
  const auto follow = [&](const optim::Schedule& schedule, double lr, int steps) {
    for (int i = 0; i < steps; ++i) {
      want -= schedule.lr_at(lr, optimizer.steps());
      EXPECT_EQ(optimizer.current_lr(), schedule.lr_at(lr, optimizer.steps()));
      step({});
      EXPECT_EQ(w.item(), want) << "step " << optimizer.steps();
    }
  };
  follow({}, 0.5, 3);
  optimizer.set_lr(0.25);
  follow({}, 0.25, 3);
  const optim::Schedule cosine = optim::cosine({.steps = 30});
  optimizer.set_schedule(cosine);
  follow(cosine, 0.25, 20);
  optimizer.set_lr(0.125);
  follow(cosine, 0.125, 10);
  EXPECT_EQ(step.captures(), 1);
}

TEST(Optim, LeavesFrozenAndUnusedParametersAlone) {
  for (const Case& c : cases()) {
    const Tensors p = parameters(DType::f32);
    const std::vector<double> before = values_of(p);
    const auto optimizer = c.make(p);
    sum(p[0]).backward();
    optimizer->step();
    EXPECT_NE(values_of({p[0]}), std::vector<double>(before.begin(), before.begin() + 6)) << c.name;
    EXPECT_EQ(values_of({p[1]}), std::vector<double>(before.begin() + 6, before.end())) << c.name;
    const std::vector<double> after = values_of(p);
    p[0].set_requires_grad(false);
    optimizer->step();
    EXPECT_EQ(values_of(p), after) << c.name;
    optimizer->zero_grad();
    EXPECT_FALSE(p[0].grad().defined()) << c.name;
  }
}

TEST(Optim, GroupsHaveRatesOfTheirOwn) {
  const Tensor a = ones({1}).set_requires_grad();
  const Tensor b = ones({1}).set_requires_grad();
  optim::SGD optimizer(
      {{.parameters = {a}, .options = {.lr = 0.5}}, {.parameters = {b}, .options = {.lr = 0.25}}});
  const auto step = [&] {
    optimizer.zero_grad();
    sum(add(a, b)).backward();
    optimizer.step();
  };
  step();
  EXPECT_EQ(a.item(), 0.5);
  EXPECT_EQ(b.item(), 0.75);
  optimizer.set_lr(1, 0.5);
  step();
  EXPECT_EQ(a.item(), 0);
  EXPECT_EQ(b.item(), 0.25);
  EXPECT_EQ(optimizer.lr(0), 0.5);
  EXPECT_EQ(optimizer.lr(1), 0.5);
  EXPECT_EQ(optimizer.groups(), 2U);
  EXPECT_EQ(optimizer.options(1).lr, 0.25);  // as it was given
  EXPECT_EQ(optimizer.parameters(1).at(0).impl(), b.impl());
  EXPECT_THROW(optimizer.options(2), IndexError);
  EXPECT_THROW(optimizer.parameters(2), IndexError);
}

TEST(Optim, OneUpdateTakesParametersOfSeveralDtypes) {
  Tensors p;
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16})
    p.push_back(ones({5}, {.dtype = dtype}).set_requires_grad());
  optim::AdamW optimizer(p, {.lr = 0.25, .weight_decay = 0});
  for (const Tensor& t : p) t.set_grad(ones({5}, {.dtype = t.dtype()}));
  const Tensor norm = optim::clip_grad_norm_(p, 100);
  EXPECT_NEAR(norm.item(), std::sqrt(20.0), 1e-12);
  optimizer.step();
  for (const Tensor& t : p) EXPECT_NEAR(values_of({t})[4], 0.75, 1e-3) << to_string(t.spec());
}

TEST(Optim, ThreadsDoNotChangeTheBits) {
  const auto train = [](int threads) {
    set_num_threads(threads);
    manual_seed(1);
    const Tensors p = {uniform({70001}).set_requires_grad(),
                       uniform({333, 77}).set_requires_grad()};
    optim::AdamW optimizer(p, {.lr = 0.1});
    Tensor norm;
    for (int i = 0; i < 3; ++i) {
      optimizer.zero_grad();
      for (const Tensor& t : p) t.set_grad(t.detach());
      norm = optim::clip_grad_norm_(p, 1);
      optimizer.step();
    }
    std::vector<double> values = values_of(p);
    values.push_back(norm.item());
    return values;
  };
  const int before = num_threads();
  const auto one = train(1);
  EXPECT_EQ(one, train(3));
  set_num_threads(before);
}

}  // namespace
}  // namespace mica
