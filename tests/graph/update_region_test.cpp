// Steps of optimizers that a flag on the device leaves out, and those of several parts of a batch.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "mica/graph/plan.h"
#include "mica/mica.h"
#include "mica/op/write_region.h"
#include "tests/device.h"

namespace mica {
namespace {

using namespace optim;
using testing::Contains;
using testing::HasSubstr;

using Make = std::function<std::unique_ptr<Optimizer>(const Tensors&)>;

template <class O, class Options>
Make maker(const Options& options) {
  return [=](const Tensors& p) { return std::make_unique<O>(p, options); };
}

/// With a momentum that a scheduler could set.
Make claimed(const Make& make) {
  return [make](const Tensors& p) {
    auto optimizer = make(p);
    optimizer->claim_momenta();
    return optimizer;
  };
}

std::map<std::string, Make> makers() {
  return {{"SGD by momentum",
           claimed(maker<SGD>(SGDOptions{.lr = 0.03, .momentum = 0.9, .dampening = 0.2}))},
          {"AdamW by beta", claimed(maker<AdamW>(AdamWOptions{.lr = 0.05, .amsgrad = true}))},
          {"SGD", maker<SGD>(SGDOptions{.lr = 0.03, .momentum = 0.9, .dampening = 0.2})},
          {"plain SGD", maker<SGD>(SGDOptions{.lr = 0.03})},
          {"Adam", maker<Adam>(AdamOptions{.lr = 0.05, .amsgrad = true})},
          {"AdamW", maker<AdamW>(AdamWOptions{.lr = 0.05})},
          {"RMSprop", maker<RMSprop>(RMSpropOptions{.momentum = 0.5, .centered = true})},
          {"Adagrad", maker<Adagrad>(AdagradOptions{.lr_decay = 0.1})},
          {"Adadelta", maker<Adadelta>(AdadeltaOptions{})},
          {"Adamax", maker<Adamax>(AdamaxOptions{})},
          {"NAdam", maker<NAdam>(NAdamOptions{.lr = 0.05})},
          {"RAdam", maker<RAdam>(RAdamOptions{.lr = 0.05})},
          {"Adafactor", maker<Adafactor>(AdafactorOptions{.lr = 0.05})},
          {"ASGD", maker<ASGD>(ASGDOptions{.lambd = 0.01})},
          {"Rprop", maker<Rprop>(RpropOptions{})},
          {"Lion", maker<Lion>(LionOptions{.lr = 0.01})},
          {"Muon", maker<Muon>(MuonOptions{.lr = 0.05})}};
}

Tensors weights(DType dtype) {
  manual_seed(3);
  const TensorOptions o{.dtype = dtype, .device = test::device()};
  return {uniform({5, 4}, -1, 1, o).set_requires_grad(),
          uniform({4, 3}, -1, 1, o).set_requires_grad()};
}

Tensor loss_of(const Tensors& w, const Tensor& x) {
  return mean(square(matmul(tanh(matmul(x, w[0])), w[1])));
}

std::vector<std::vector<double>> values_of(const Tensors& w, const Optimizer& optimizer) {
  std::vector<std::vector<double>> all;
  for (const Tensor& t : w) all.push_back(cast(t.detach(), DType::f64).to_vector<double>());
  for (const auto& [key, value] : optimizer.state_dict())
    all.push_back(cast(value, DType::f64).to_vector<double>());
  return all;
}

TEST(UpdateRegion, AnUpdateWithAStepOfItsOwnIsLeftOutToo) {
  const TensorOptions number{.dtype = DType::i64, .device = test::device()};
  const auto values = [](const Tensor& t) { return t.to_vector<float>(); };
  for (const bool on : {false, true})
    for (const bool has_step : {false, true}) {
      const Tensor p = ones({3}, {.device = test::device()});
      const Tensor m = zeros_like(p);
      const Tensor lr = full({}, 0.5, {.dtype = DType::f64, .device = test::device()});
      {
        const WriteRegion region(full({}, on, {DType::boolean, test::device()}),
                                 full({}, on ? 7 : 0, number));
        sgd_update(lr, {p}, {ones_like(p)}, {m}, {.momentum = 0.5},
                   has_step ? full({}, 3, number) : Tensor());
        add_(m, ones_like(m));
      }
      EXPECT_EQ(values(p), std::vector<float>(3, on ? 0.5F : 1.0F));
      EXPECT_EQ(values(m), std::vector<float>(3, on ? 2.0F : 0.0F));
    }
}

TEST(UpdateRegion, AStepThatIsLeftOutChangesNothing) {
  set_deterministic(true);  // compiled steps then end with the bits of eager ones
  const Device device = test::device();
  const Tensor x = uniform({6, 5}, -1, 1, {.device = device});
  const auto flag = [&](bool on) { return full({}, on, {DType::boolean, device}); };
  for (const auto& [name, make] : makers()) {
    for (const bool compiled : {false, true}) {
      for (const DType dtype : {DType::f32, DType::bf16}) {
        const Tensors all = weights(dtype);
        const Tensors taken = weights(dtype);
        const auto some = make(all);     // every second step is left out
        const auto every = make(taken);  // those it makes
        some->set_schedule(exponential({.gamma = 0.8}));
        every->set_schedule(exponential({.gamma = 0.8}));
        const auto step = [](Optimizer& o, const Tensors& w, const Tensor& in, const Tensor& on) {
          o.zero_grad();
          loss_of(w, cast(in, w[0].dtype())).backward();
          o.step(on);
        };
        auto region = compile([&](const Tensor& in, const Tensor& on) {
          step(*some, all, in, on);
          return in;
        });
        for (int i = 0; i < 6; ++i) {
          const bool on = i % 2 == 1;
          if (compiled) {
            region(x, flag(on));
          } else {
            step(*some, all, x, flag(on));
          }
          if (on) step(*every, taken, x, {});
          EXPECT_EQ(values_of(all, *some), values_of(taken, *every))
              << name << (compiled ? ", compiled, step " : ", step ") << i;
        }
        EXPECT_EQ(some->steps(), 3) << name;
        if (compiled) {
          EXPECT_EQ(region.function()->captures(), 1);
        }
      }
    }
  }
  set_deterministic(false);
}

TEST(UpdateRegion, TheUpdateIsStillOneKernel) {
  const Tensors w = weights(DType::f32);
  Adam optimizer(w);
  auto step = compile([&](const Tensor& in, const Tensor& on) {
    loss_of(w, in).backward();
    optimizer.step(on);
    optimizer.zero_grad();
    return in;
  });
  const Device device = test::device();
  step(uniform({6, 5}, -1, 1, {.device = device}), full({}, true, {DType::boolean, device}));
  EXPECT_THAT(step.function()->plan()->kernels(), Contains(HasSubstr("adam_update")).Times(1));
}

TEST(UpdateRegion, AnyWriteIsPutBack) {
  const Device device = test::device();
  const Tensor number = zeros({}, {DType::i64, device});
  for (const bool on : {false, true}) {
    const Tensor where = full({}, on, {DType::boolean, device});
    const Tensor floats = ones({4}, {.device = device});
    const Tensor whole = zeros({3}, {DType::i64, device});
    {
      const WriteRegion region(where, number);
      add_(floats, full({4}, 2.0, {.device = device}));
      fill_(slice(floats, 0, 1, 3), 7);
      fill_(whole, 5);
    }
    EXPECT_EQ(floats.to_vector<float>(),
              on ? (std::vector<float>{3, 7, 7, 3}) : (std::vector<float>{1, 1, 1, 1}));
    EXPECT_EQ(whole.to_vector<int64_t>(), std::vector<int64_t>(3, on ? 5 : 0));
    fill_(floats, 9);  // outside
    EXPECT_EQ(floats.to_vector<float>(), std::vector<float>(4, 9));
  }
}

TEST(UpdateRegion, RefusesAFlagThatIsNone) {
  const Tensors w = weights(DType::f32);
  SGD optimizer(w);
  loss_of(w, uniform({6, 5}, -1, 1, {.device = test::device()})).backward();
  EXPECT_THROW(optimizer.step(ones({2}, {DType::boolean, test::device()})), ShapeError);
  EXPECT_THROW(optimizer.step(ones({}, {.device = test::device()})), ShapeError);
  EXPECT_EQ(optimizer.steps(), 0);
}

TEST(Accumulation, OfPartsIsThatOfTheJoinedBatch) {
  const Device device = test::device();
  const TensorOptions wide{.dtype = DType::f64, .device = device};
  const Tensor x = uniform({8, 5}, -1, 1, wide);
  const Tensor y = uniform({8, 3}, -1, 1, wide);
  const auto loss_with = [](const Tensors& w, const Tensors& batch) {
    return mean(square(sub(matmul(tanh(matmul(batch[0], w[0])), w[1]), batch[1])));
  };
  const Tensors joined = weights(DType::f64);
  const Tensors eager = weights(DType::f64);
  const Tensors compiled = weights(DType::f64);
  AdamW of_joined(joined, {.lr = 0.05});
  AdamW of_eager(eager, {.lr = 0.05});
  AdamW of_compiled(compiled, {.lr = 0.05});
  const auto step_parts = [&](AdamW& optimizer, const Tensors& w, const Tensors& batch) {
    optimizer.zero_grad();
    const Tensor loss =
        accumulate_backward([&](const Tensors& part) { return loss_with(w, part); }, batch, 4);
    optimizer.step();
    return loss;
  };
  auto step = compile(
      [&](const Tensor& a, const Tensor& b) { return step_parts(of_compiled, compiled, {a, b}); });
  for (int i = 0; i < 5; ++i) {
    of_joined.zero_grad();
    const Tensor loss = loss_with(joined, {x, y});
    loss.backward();
    of_joined.step();
    EXPECT_NEAR(step_parts(of_eager, eager, {x, y}).item(), loss.item(), 1e-12);
    EXPECT_NEAR(step(x, y).item(), loss.item(), 1e-12);
    for (size_t k = 0; k < joined.size(); ++k) {
      const std::vector<double> want = joined[k].to_vector<double>();
      for (const Tensors* w : {&eager, &compiled}) {
        const std::vector<double> got = (*w)[k].to_vector<double>();
        for (size_t e = 0; e < want.size(); ++e) EXPECT_NEAR(got[e], want[e], 1e-12);
      }
    }
  }
  // One plan, with the update in it once.
  EXPECT_EQ(step.function()->captures(), 1);
  EXPECT_EQ(step.function()->plan()->is_one_launch(), device.is_cuda());
  EXPECT_THAT(step.function()->plan()->kernels(), Contains(HasSubstr("adam_update")).Times(1));
  EXPECT_THROW(accumulate_backward([&](const Tensors& p) { return sum(p[0]); }, {x}, 3),
               ShapeError);
}

TEST(Masters, KeepWhatHalfPrecisionLoses) {
  const Device device = test::device();
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor w = ones({20}, {.dtype = dtype, .device = device}).set_requires_grad();
    SGD optimizer({w}, {.lr = 1e-4});
    w.set_grad(ones({20}, {.dtype = dtype, .device = device}));
    for (int i = 0; i < 100; ++i) optimizer.step();  // each too small to be seen
    EXPECT_NEAR(cast(w.detach(), DType::f64).to_vector<double>()[0], 0.99, 4e-3);
    EXPECT_NEAR(optimizer.state_dict().at("0.master").to_vector<float>()[7], 0.99, 1e-5);
    // What is written to a parameter goes before its master, element by element.
    const Tensor master = optimizer.state_dict().at("0.master");
    {
      const NoGrad guard;
      fill_(slice(w, 0, 0, 10), 3);
    }
    optimizer.step();
    const std::vector<float> now = master.to_vector<float>();
    EXPECT_NEAR(now[0], 3 - 1e-4, 1e-6);
    EXPECT_NEAR(now[15], 0.9899, 1e-5);
  }
}

TEST(Masters, StatesAreF32) {
  for (const auto& [name, make] : makers()) {
    const Tensors w = weights(DType::bf16);
    const auto optimizer = make(w);
    for (const auto& [key, value] : optimizer->state_dict()) {
      const bool of_a_weight = key.starts_with("0.");
      EXPECT_EQ(of_a_weight && value.dtype() != DType::f32, false) << name << " " << key;
    }
  }
}

TEST(Groups, AreAddedAndCompiledStepsSeeThem) {
  const Device device = test::device();
  const Tensor a = ones({2}, {.device = device}).set_requires_grad();
  const Tensor b = ones({2}, {.device = device}).set_requires_grad();
  SGD optimizer({a}, {.lr = 0.5});
  auto step = compile([&](const Tensor& x) {
    optimizer.zero_grad();
    sum(mul(add(a, b), x)).backward();
    optimizer.step();
    return x;
  });
  const Tensor one = ones({2}, {.device = device});
  step(one);
  EXPECT_EQ(a.to_vector<float>()[0], 0.5F);
  EXPECT_EQ(b.to_vector<float>()[0], 1);
  optimizer.add_param_group({.parameters = {b}, .options = {.lr = 0.25}});
  step(one);
  step(one);
  EXPECT_EQ(a.to_vector<float>()[0], -0.5F);
  EXPECT_EQ(b.to_vector<float>()[0], 0.5F);
  EXPECT_EQ(step.function()->captures(), 2);
  optimizer.set_options(1, {.lr = 99, .weight_decay = 1});
  EXPECT_EQ(optimizer.lr(1), 0.25);  // which set_lr sets
  step(one);
  EXPECT_EQ(b.to_vector<float>()[0], 0.125F);
  EXPECT_EQ(step.function()->captures(), 3);
  EXPECT_THROW(optimizer.set_options(0, {.momentum = 0.9}), Error);
}

TEST(Rates, TheNextStepUsesTheOneThatIsSet) {
  const Tensor w = ones({1}, {.device = test::device()}).set_requires_grad();
  SGD optimizer({w}, {.lr = 0.5});
  optimizer.set_schedule(cosine({.steps = 10, .min_lr = 0.125}));
  w.set_grad(ones({1}, {.device = test::device()}));
  for (int i = 0; i < 5; ++i) optimizer.step();
  EXPECT_DOUBLE_EQ(optimizer.current_lr(), 0.3125);
  optimizer.set_current_lr(0, 0.25);
  EXPECT_DOUBLE_EQ(optimizer.current_lr(), 0.25);
  EXPECT_DOUBLE_EQ(optimizer.lr(), 0.375);
  for (int i = 0; i < 5; ++i) optimizer.step();
  EXPECT_THROW(optimizer.set_current_lr(0, 0.5), Error);
}

TEST(Ema, FollowsTheWeights) {
  const Device device = test::device();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Tensor w = zeros({3}, {.dtype = dtype, .device = device}).set_requires_grad();
    EMA ema({w}, {.decay = 0.5});
    auto step = compile([&](const Tensor& x, const Tensor& on) {
      const NoGrad guard;
      copy_(w, x);
      ema.update(on);
      return x;
    });
    const auto flag = [&](bool on) { return full({}, on, {DType::boolean, device}); };
    const Tensor four = full({3}, 4, {.dtype = dtype, .device = device});
    step(four, flag(true));
    step(four, flag(false));
    step(four, flag(true));
    EXPECT_EQ(ema.averages()[0].to_vector<float>(), std::vector<float>(3, 3));
    ema.apply();
    EXPECT_EQ(cast(w.detach(), DType::f32).to_vector<float>(), std::vector<float>(3, 3));
    EXPECT_THROW(ema.update(), Error);
    ema.restore();
    EXPECT_EQ(cast(w.detach(), DType::f32).to_vector<float>(), std::vector<float>(3, 4));
    EMA other({w}, {.decay = 0.5});
    other.load_state_dict(ema.state_dict());
    EXPECT_EQ(other.averages()[0].to_vector<float>(), std::vector<float>(3, 3));
    EXPECT_EQ(other.state_dict().at("steps").item(), 2);
  }
}

}  // namespace
}  // namespace mica
