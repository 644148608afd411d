#include "mica/optim/optim.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "mica/mica.h"
#include "tests/unit/expect_error.h"
#include "tests/unit/golden/optim.h"

namespace mica {
namespace {

using Make = std::function<std::unique_ptr<optim::Optimizer>(const Tensors&)>;

template <class O, class Options>
Make maker(const Options& options) {
  return [=](const Tensors& p) { return std::make_unique<O>(p, options); };
}

// The problem of golden/optim.py.

Tensors parameters(DType dtype) {
  const auto values = [&](int64_t n, int seed, const Shape& shape) {
    std::vector<double> v(static_cast<size_t>(n));
    for (size_t i = 0; i < v.size(); ++i) v[i] = std::sin(1.7 * (static_cast<int>(i) + seed));
    return cast(tensor(v, shape), dtype).set_requires_grad();
  };
  return {values(6, 1, {2, 3}), values(4, 20, {4})};
}

Tensor loss_of(const Tensors& params) {
  Tensor total;
  for (const Tensor& p : params) {
    const Tensor stretch =
        reshape(arange(1, static_cast<double>(p.numel() + 1), 1, {.dtype = p.dtype()}), p.shape());
    const Tensor term = sum(mul(stretch, square(sub(p, 0.3))));
    total = total.defined() ? add(total, term) : term;
  }
  return total;
}

using Clip = std::function<void(const Tensors&)>;

void take_step(const Tensors& params, optim::Optimizer& optimizer, const Clip& clip = nullptr) {
  optimizer.zero_grad();
  loss_of(params).backward();
  if (clip) clip(params);
  optimizer.step();
}

std::vector<double> values_of(const Tensors& tensors) {
  std::vector<double> all;
  for (const Tensor& t : tensors) {
    const std::vector<double> v = cast(t.detach(), DType::f64).to_vector<double>();
    all.insert(all.end(), v.begin(), v.end());
  }
  return all;
}

void expect_near(const std::vector<double>& got, const std::vector<double>& want, double tolerance,
                 const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], want[i], tolerance) << what << ", number " << i;
}

void expect_golden(const std::string& name, const std::vector<double>& want, const Make& make,
                   const Clip& clip = nullptr) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Tensors params = parameters(dtype);
    const auto optimizer = make(params);
    for (int i = 0; i < 10; ++i) take_step(params, *optimizer, clip);
    expect_near(values_of(params), want, dtype == DType::f64 ? 1e-12 : 1e-6, name);
  }
}

struct Case {
  const char* name;
  const std::vector<double>& golden;
  Make make;
};

std::vector<Case> cases() {
  using namespace golden;
  using namespace optim;
  using S = SGDOptions;
  using A = AdamOptions;
  using W = AdamWOptions;
  using R = RMSpropOptions;
  using G = AdagradOptions;
  return {
      {"SGD", kSgdPlain, maker<SGD>(S{.lr = 0.03})},
      {"SGD momentum", kSgdMomentum, maker<SGD>(S{.lr = 0.03, .momentum = 0.9})},
      {"SGD dampening", kSgdDampening,
       maker<SGD>(S{.lr = 0.03, .momentum = 0.9, .dampening = 0.4, .weight_decay = 0.1})},
      {"SGD nesterov", kSgdNesterov,
       maker<SGD>(S{.lr = 0.03, .momentum = 0.8, .weight_decay = 0.05, .nesterov = true})},
      {"SGD groups", kSgdGroups,
       [](const Tensors& p) {
         return std::make_unique<SGD>(std::vector<SGD::Group>{
             {.parameters = {p[0]}, .options = {.lr = 0.03, .momentum = 0.9}},
             {.parameters = {p[1]}, .options = {.lr = 0.005, .momentum = 0.5}}});
       }},
      {"Adam", kAdamDefaults, maker<Adam>(A{})},
      {"Adam everything", kAdamEverything,
       maker<Adam>(
           A{.lr = 0.05, .betas = {0.8, 0.95}, .eps = 1e-3, .weight_decay = 0.1, .amsgrad = true})},
      {"AdamW", kAdamWDefaults, maker<AdamW>(W{.lr = 0.05})},
      {"AdamW everything", kAdamWEverything,
       maker<AdamW>(
           W{.lr = 0.2, .betas = {0.7, 0.9}, .eps = 1e-4, .weight_decay = 0.3, .amsgrad = true})},
      {"RMSprop", kRmspropDefaults, maker<RMSprop>(R{})},
      {"RMSprop momentum", kRmspropMomentum,
       maker<RMSprop>(R{.lr = 0.02, .alpha = 0.9, .weight_decay = 0.1, .momentum = 0.7})},
      {"RMSprop centered", kRmspropCentered,
       maker<RMSprop>(R{.lr = 0.02, .alpha = 0.8, .eps = 1e-2, .centered = true})},
      {"RMSprop everything", kRmspropEverything,
       maker<RMSprop>(R{.lr = 0.01, .alpha = 0.8, .eps = 1e-2, .momentum = 0.5, .centered = true})},
      {"Adagrad", kAdagradDefaults, maker<Adagrad>(G{})},
      {"Adagrad everything", kAdagradEverything,
       maker<Adagrad>(G{.lr = 0.3,
                        .lr_decay = 0.1,
                        .weight_decay = 0.1,
                        .initial_accumulator_value = 0.5,
                        .eps = 1e-3})},
      {"Adadelta", kAdadeltaDefaults, maker<Adadelta>(AdadeltaOptions{})},
      {"Adadelta everything", kAdadeltaEverything,
       maker<Adadelta>(AdadeltaOptions{.lr = 0.5, .rho = 0.8, .eps = 1e-3, .weight_decay = 0.1})},
      {"Adamax", kAdamaxDefaults, maker<Adamax>(AdamaxOptions{})},
      {"Adamax everything", kAdamaxEverything,
       maker<Adamax>(
           AdamaxOptions{.lr = 0.05, .betas = {0.8, 0.95}, .eps = 1e-3, .weight_decay = 0.1})},
      {"NAdam", kNadamDefaults, maker<NAdam>(NAdamOptions{})},
      {"NAdam everything", kNadamEverything,
       maker<NAdam>(NAdamOptions{.lr = 0.05,
                                 .betas = {0.8, 0.95},
                                 .eps = 1e-3,
                                 .weight_decay = 0.1,
                                 .momentum_decay = 0.1})},
      {"NAdam decoupled", kNadamDecoupled,
       maker<NAdam>(NAdamOptions{.lr = 0.05, .weight_decay = 0.1, .decoupled_weight_decay = true})},
      {"RAdam", kRadamDefaults, maker<RAdam>(RAdamOptions{})},
      {"RAdam everything", kRadamEverything,
       maker<RAdam>(
           RAdamOptions{.lr = 0.05, .betas = {0.8, 0.95}, .eps = 1e-3, .weight_decay = 0.1})},
      {"RAdam decoupled", kRadamDecoupled,
       maker<RAdam>(RAdamOptions{.lr = 0.05, .weight_decay = 0.1, .decoupled_weight_decay = true})},
      {"Lion", kLion, maker<Lion>(LionOptions{.lr = 0.05, .weight_decay = 0.1})}};
}

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

TEST(Optim, ClippingIsThatOfPyTorch) {
  const Make sgd = maker<optim::SGD>(optim::SGDOptions{.lr = 0.03, .momentum = 0.9});
  expect_golden("norm", golden::kClipNorm, sgd,
                [](const Tensors& p) { optim::clip_grad_norm_(p, 1.5); });
  expect_golden("value", golden::kClipValue, sgd,
                [](const Tensors& p) { optim::clip_grad_value_(p, 0.7); });
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

TEST(Optim, SchedulesAreThoseOfPyTorch) {
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

TEST(Optim, SchedulesStayWhereTheyEnd) {
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

TEST(Optim, SchedulesRefuseBadOptions) {
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

TEST(Optim, SaveLoadAndContinueIsBitEqual) {
  const auto copy_of = [](const std::map<std::string, Tensor>& state) {
    std::map<std::string, Tensor> copies;
    for (const auto& [key, value] : state) copies[key] = clone(value);
    return copies;
  };
  for (const Case& c : cases()) {
    const Tensors params = parameters(DType::f32);
    const auto optimizer = c.make(params);
    optimizer->set_schedule(optim::one_cycle({.steps = 20}));
    optimizer->set_lr(0.07);
    for (int i = 0; i < 7; ++i) take_step(params, *optimizer);

    Tensors resumed;
    for (const Tensor& p : params) resumed.push_back(clone(p.detach()).set_requires_grad());
    const auto other = c.make(resumed);
    other->load_state_dict(copy_of(optimizer->state_dict()));
    EXPECT_EQ(other->lr(), 0.07) << c.name;
    EXPECT_EQ(other->steps(), 7) << c.name;
    EXPECT_EQ(other->schedule(), optimizer->schedule()) << c.name;
    for (int i = 0; i < 7; ++i) {
      take_step(params, *optimizer);
      take_step(resumed, *other);
    }
    EXPECT_EQ(values_of(params), values_of(resumed)) << c.name;
  }
}

TEST(Optim, StateHasStableNames) {
  const auto keys = [](const optim::Optimizer& o) {
    std::string all;
    for (const auto& [key, value] : o.state_dict()) all += key + " ";
    return all;
  };
  const Tensors p = parameters(DType::f32);
  EXPECT_EQ(keys(optim::SGD(p)), "lr schedule step ");
  EXPECT_EQ(keys(optim::SGD(
                {{.parameters = {p[0]}}, {.parameters = {p[1]}, .options = {.momentum = 0.9}}})),
            "1.momentum lr schedule step ");
  EXPECT_EQ(keys(optim::Adam({p[0]}, {.amsgrad = true})),
            "0.exp_avg 0.exp_avg_sq 0.max_exp_avg_sq lr schedule step ");
  EXPECT_EQ(keys(optim::RMSprop({p[0]}, {.momentum = 0.9, .centered = true})),
            "0.grad_avg 0.momentum 0.square_avg lr schedule step ");
  EXPECT_EQ(keys(optim::Adagrad(p)), "0.sum 1.sum lr schedule step ");
}

TEST(Optim, RefusesAStateOfAnother) {
  const Tensors p = parameters(DType::f32);
  optim::SGD optimizer(p, {.momentum = 0.9});
  const std::map<std::string, Tensor> good = optimizer.state_dict();
  const auto expect = [&](const std::string& key, const Tensor& value, const std::string& text) {
    std::map<std::string, Tensor> state = good;
    state[key] = value;
    try {
      optimizer.load_state_dict(state);
      ADD_FAILURE() << "nothing was thrown; expected '" << text << "'";
    } catch (const Error& e) {
      EXPECT_EQ(std::string(e.what()), text);
    }
  };
  expect("0.momentum", zeros({3, 2}),
         "optim::SGD: load_state_dict: '0.momentum' must have shape [2, 3], got [3, 2]");
  expect("1.momentum", zeros({4}, {.dtype = DType::f64}),
         "optim::SGD: load_state_dict: '1.momentum' must be f32, got f64");
  expect("2.momentum", zeros({4}), "optim::SGD: load_state_dict: unexpected '2.momentum'");
  expect("lr", {}, "optim::SGD: load_state_dict: 'lr' is undefined");
  expect("lr", full({1}, -1, {.dtype = DType::f64}), "optim::SGD: lr must not be negative, got -1");
  std::map<std::string, Tensor> less = good;
  less.erase("0.momentum");
  expect_error<Error>("'0.momentum' f32[2, 3] is missing",
                      [&] { optimizer.load_state_dict(less); });
}

TEST(Optim, RefusesBadOptions) {
  using namespace optim;
  const Tensors p = parameters(DType::f32);
  const auto refuse = [](const std::string& text, const auto& make) {
    expect_error<Error>(text, make);
  };
  refuse("optim::SGD: lr must not be negative, got -1", [&] { SGD(p, {.lr = -1}); });
  refuse("optim::SGD: lr must not be negative, got nan", [&] { SGD(p, {.lr = NAN}); });
  refuse("optim::SGD: momentum must not be negative, got -0.9",
         [&] { SGD(p, {.momentum = -0.9}); });
  refuse("optim::SGD: weight_decay must not be negative, got -1",
         [&] { SGD(p, {.weight_decay = -1}); });
  refuse("optim::SGD: nesterov needs momentum and no dampening, got 0 and 0",
         [&] { SGD(p, {.nesterov = true}); });
  refuse("optim::SGD: expected parameters, got none", [] { SGD(std::vector<SGD::Group>{}); });
  refuse("optim::SGD: expected parameters in group 1, got none",
         [&] { SGD({{.parameters = p}, {.parameters = {}}}); });
  refuse("optim::SGD: a parameter (f32[4]) is given twice",
         [&] { SGD({{.parameters = p}, {.parameters = {p[1]}}}); });
  refuse("optim::SGD: expected leaves, got a result of another op (f32[4])",
         [&] { SGD({mul(p[1], 2)}); });
  refuse("optim::SGD: a parameter is undefined", [] { SGD(Tensors{Tensor()}); });
  expect_error<DTypeError>("optim::SGD: parameters must be floating, got i64[2]",
                           [] { SGD({zeros({2}, {.dtype = DType::i64})}); });
  refuse("optim::Adam: betas must be in [0, 1), got 0.9 and 1",
         [&] { Adam(p, {.betas = {0.9, 1.0}}); });
  refuse("optim::Adam: eps must not be negative, got -1e-08", [&] { Adam(p, {.eps = -1e-8}); });
  refuse("optim::AdamW: betas must be in [0, 1), got -0.1 and 0.999",
         [&] { AdamW(p, {.betas = {-0.1, 0.999}}); });
  refuse("optim::AdamW: weight_decay must not be negative, got -2",
         [&] { AdamW(p, {.weight_decay = -2}); });
  refuse("optim::RMSprop: alpha must be in [0, 1], got 1.5", [&] { RMSprop(p, {.alpha = 1.5}); });
  refuse("optim::RMSprop: momentum must not be negative, got -1",
         [&] { RMSprop(p, {.momentum = -1}); });
  refuse("optim::Adagrad: lr_decay must not be negative, got -1",
         [&] { Adagrad(p, {.lr_decay = -1}); });
  refuse("optim::Adagrad: initial_accumulator_value must not be negative, got -1",
         [&] { Adagrad(p, {.initial_accumulator_value = -1}); });
  SGD sgd(p);
  refuse("optim::SGD: lr must not be negative, got -3", [&] { sgd.set_lr(-3); });
  expect_error<IndexError>("optim::SGD: expected a group below 1, got 1",
                           [&] { sgd.set_lr(1, 0.1); });
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

TEST(ClipGrad, ReturnsTheNormAndLeavesShortGradientsAlone) {
  const Tensor a = zeros({2}).set_requires_grad();
  const Tensor b = zeros({1}).set_requires_grad();
  const Tensor none = zeros({3}).set_requires_grad();
  a.set_grad(tensor({2.0F, 3.0F}, {2}));
  b.set_grad(tensor({6.0F}, {1}));
  EXPECT_EQ(optim::clip_grad_norm_({a, none, b}, 8).item(), 7);
  EXPECT_EQ(values_of({a.grad(), b.grad()}), (std::vector<double>{2, 3, 6}));
  EXPECT_EQ(optim::clip_grad_norm_({a, none, b}, 3.5).item(), 7);
  expect_near(values_of({a.grad(), b.grad()}), {1, 1.5, 3}, 1e-6, "halved");
  EXPECT_FALSE(none.grad().defined());
  EXPECT_EQ(optim::clip_grad_norm_({none}, 1).item(), 0);
  EXPECT_EQ(optim::clip_grad_norm_({}, 1).item(), 0);
  optim::clip_grad_value_({none}, 1);
}

TEST(ClipGrad, GradientsThatShareMemoryAreScaledOnce) {
  const Tensor a = zeros({2}).set_requires_grad();
  const Tensor b = zeros({2}).set_requires_grad();
  const Tensor cotangent = tensor({3.0F, 4.0F}, {2});
  add(a, b).backward(cotangent);
  optim::clip_grad_norm_({a}, 2.5);
  optim::clip_grad_norm_({b}, 2.5);
  expect_near(values_of({a.grad(), b.grad(), cotangent}), {1.5, 2, 1.5, 2, 3, 4}, 1e-6, "shared");
}

TEST(ClipGrad, WhatIsNotFiniteStaysSo) {
  const Tensor a = zeros({2}).set_requires_grad();
  a.set_grad(tensor({1.0F, NAN}, {2}));
  EXPECT_TRUE(std::isnan(optim::clip_grad_norm_({a}, 1).item()));
  EXPECT_TRUE(std::isnan(values_of({a.grad()})[0]));
  a.set_grad(tensor({1.0F, INFINITY}, {2}));
  EXPECT_TRUE(std::isinf(optim::clip_grad_norm_({a}, 1).item()));
  EXPECT_EQ(values_of({a.grad()})[0], 0);
  EXPECT_TRUE(std::isnan(values_of({a.grad()})[1]));
  a.set_grad(tensor({NAN, -INFINITY}, {2}));
  optim::clip_grad_value_({a}, 2);
  EXPECT_TRUE(std::isnan(values_of({a.grad()})[0]));
  EXPECT_EQ(values_of({a.grad()})[1], -2);
}

TEST(ClipGrad, RefusesNegativeLimits) {
  expect_error<Error>("optim::clip_grad_norm_: max_norm must not be negative, got -1",
                      [] { optim::clip_grad_norm_({}, -1); });
  expect_error<Error>("optim::clip_grad_value_: clip_value must not be negative, got -1",
                      [] { optim::clip_grad_value_({}, -1); });
}

}  // namespace
}  // namespace mica
