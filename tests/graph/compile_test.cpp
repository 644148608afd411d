#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "mica/graph/plan.h"
#include "mica/mica.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using Floats = std::vector<float>;

Tensor vec(std::initializer_list<float> values) {
  return tensor(values, {static_cast<int64_t>(values.size())});
}

TEST(Compile, CapturesOnceAndReplays) {
  int calls = 0;
  auto f = compile([&](const Tensor& x, const Tensor& y) {
    ++calls;
    return relu(sub(x, y));
  });
  EXPECT_EQ(f.function(), nullptr);
  EXPECT_EQ(f(vec({1, 5}), vec({2, 2})).to_vector<float>(), (Floats{0, 3}));
  EXPECT_EQ(f(vec({9, 0}), vec({1, 1})).to_vector<float>(), (Floats{8, 0}));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(f.function()->captures(), 1);
  EXPECT_EQ(f.function()->plan()->steps(), 1U);
  EXPECT_FALSE(f.function()->plan()->is_one_launch());
}

TEST(Compile, NewSpecsOrSettingsCaptureAgain) {
  auto f = compile([](const Tensor& x) { return add(x, x); });
  f(vec({1, 2}));
  f(vec({1, 2, 3}));
  EXPECT_EQ(f.function()->captures(), 2);
  f(vec({3, 4}));
  EXPECT_EQ(f.function()->captures(), 2);
  f(cast(vec({3, 4}), DType::f64));
  EXPECT_EQ(f.function()->captures(), 3);
  force_kernel("add", "reference");
  f(vec({3, 4}));
  EXPECT_EQ(f.function()->captures(), 4);
  force_kernel("add", "");
  // A strided argument is copied into its slot: no new capture.
  auto g = compile([](const Tensor& x) { return neg(x); });
  g(vec({1, 2}));
  EXPECT_EQ(g(slice(vec({1, 2, 3, 4}), 0, 0, 4, 2)).to_vector<float>(), (Floats{-1, -3}));
  EXPECT_EQ(g.function()->captures(), 1);
}

TEST(Compile, ChannelsLastArgumentsStayChannelsLast) {
  auto f = compile([](const Tensor& x) { return relu(x); });
  const Tensor x = uniform({2, 3, 4, 5}, -1, 1);
  const Tensor last = contiguous(x, MemoryFormat::channels_last);
  const Tensor y = f(last);
  EXPECT_TRUE(y.spec().is_channels_last());
  EXPECT_EQ(y.to_vector<float>(), relu(x).to_vector<float>());
  EXPECT_EQ(f(x).to_vector<float>(), relu(x).to_vector<float>());
  EXPECT_EQ(f.function()->captures(), 2);
}

TEST(Compile, ResultsOutliveTheNextRun) {
  const Tensor w = vec({1, 2}).set_requires_grad();
  const Tensor lr = scalar(0.1);
  auto step = compile([&](const Tensor& x) {
    const Tensor loss = sum(mul(mul(w, w), x));
    loss.backward();
    const NoGrad guard;
    sgd_update(lr, {w}, {w.grad()}, {}, {});
    w.set_grad({});
    return loss;
  });
  const Tensor first = step(ones({2}));
  EXPECT_FLOAT_EQ(static_cast<float>(first.item()), 5);
  const Tensor second = step(ones({2}));
  EXPECT_FLOAT_EQ(static_cast<float>(first.item()), 5);
  EXPECT_FLOAT_EQ(static_cast<float>(second.item()), 5 * 0.64F);
  EXPECT_FALSE(first.requires_grad());
}

TEST(Compile, ReturnsWhatTheFunctionReturns) {
  auto nothing = compile([](const Tensor& x) { neg(x); });
  nothing(vec({1}));
  auto several = compile([](const Tensor& x) -> Tensors {
    return {x, neg(x), reshape(add(x, x), {2, 1}), transpose(reshape(mul(x, x), {1, 2}), 0, 1)};
  });
  const Tensor x = vec({1, 2});
  const Tensors out = several(x);
  ASSERT_EQ(out.size(), 4U);
  EXPECT_EQ(out[0].to_vector<float>(), (Floats{1, 2}));
  EXPECT_EQ(out[1].to_vector<float>(), (Floats{-1, -2}));
  EXPECT_EQ(out[2].shape(), (Shape{2, 1}));
  EXPECT_EQ(out[2].to_vector<float>(), (Floats{2, 4}));
  EXPECT_EQ(out[3].to_vector<float>(), (Floats{1, 4}));
  auto none = compile([] { return full({2}, 3); });
  EXPECT_EQ(none().to_vector<float>(), (Floats{3, 3}));
}

TEST(Compile, StridedResultsAreCopiedOut) {
  auto f = compile([](const Tensor& x) -> Tensors {
    const Tensor y = neg(x);
    return {slice(y, 1, 1, 6, 2), expand(slice(y, 0, 0, 1), {3, 6})};
  });
  const Tensor x = reshape(cast(arange(12), DType::f32), {2, 6});
  const Tensors first = f(x);
  f(zeros({2, 6}));
  EXPECT_EQ(first[0].to_vector<float>(), (Floats{-1, -3, -5, -7, -9, -11}));
  EXPECT_EQ(first[1].to_vector<float>(), (Floats{-0.0F, -1, -2, -3, -4, -5, -0.0F, -1, -2, -3, -4,
                                                 -5, -0.0F, -1, -2, -3, -4, -5}));
}

TEST(Compile, AnOperandSeenTransposedIsNotOverwritten) {
  const Tensor x = uniform({40, 40}, -1, 1);
  const auto f = [](const Tensor& t) {
    const Tensor y = mul(t, 2);
    return add(y, transpose(y, 0, 1));
  };
  auto compiled = compile(f);
  EXPECT_EQ(compiled(x).to_vector<float>(), f(x).to_vector<float>());
}

TEST(Compile, WritesReachTensorsOutside) {
  const Tensor total = zeros({2});
  auto accumulate = compile([&](const Tensor& x) { add_(total, x); });
  const uint32_t version = total.storage()->version();
  accumulate(vec({1, 2}));
  accumulate(vec({10, 20}));
  EXPECT_EQ(total.to_vector<float>(), (Floats{11, 22}));
  EXPECT_GT(total.storage()->version(), version);
  // The next replay sees what is written from outside.
  fill_(total, 100);
  accumulate(vec({1, 1}));
  EXPECT_EQ(total.to_vector<float>(), (Floats{101, 101}));
}

TEST(Compile, ValuesFromOutsideAreReadAtEachRun) {
  const Tensor lr = scalar(1);
  auto f = compile([&](const Tensor& x) { return mul(x, lr); });
  EXPECT_EQ(f(vec({2})).item(), 2);
  fill_(lr, 3);
  EXPECT_EQ(f(vec({2})).item(), 6);
  EXPECT_EQ(f.function()->captures(), 1);
}

TEST(Grads, AreAssignedWhenTheStepDoesNotUseThemUp) {
  const Tensor w = vec({1, 2}).set_requires_grad();
  auto step = compile([&](const Tensor& x) {
    w.set_grad({});
    const Tensor loss = sum(mul(w, x));
    loss.backward();
    return loss;
  });
  step(vec({3, 4}));
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{3, 4}));
  const Tensor first = w.grad();
  step(vec({5, 6}));
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{5, 6}));
  EXPECT_EQ(first.to_vector<float>(), (Floats{3, 4}));
  EXPECT_EQ(step.function()->captures(), 1);
}

TEST(Grads, AreTemporaryWhenTheStepUpdatesTheLeaf) {
  const Tensor w = vec({1, 2}).set_requires_grad();
  const Tensor lr = scalar(1);
  auto step = compile([&](const Tensor& x) {
    w.set_grad({});
    sum(mul(w, x)).backward();
    const NoGrad guard;
    sgd_update(lr, {w}, {w.grad()}, {}, {});
  });
  for (int i = 0; i < 3; ++i) step(vec({1, 1}));
  EXPECT_EQ(w.to_vector<float>(), (Floats{-2, -1}));
  // Nobody kept it, and whoever asks is told so.
  expect_error<Error>("is not kept: a compiled function made it and used it up", [&] { w.grad(); });
  expect_error<Error>("is not kept", [&] { sum(w).backward(); });
  w.set_grad({});
  EXPECT_FALSE(w.grad().defined());
  EXPECT_EQ(step.function()->captures(), 1);
}

TEST(Grads, ThatTheNextCallAddsToAreKept) {
  const auto run = [](bool compiled) {
    const Tensor w = vec({1, 2}).set_requires_grad();
    const Tensor lr = scalar(1);
    const auto body = [&](const Tensor& x) {
      sum(mul(w, x)).backward();
      const NoGrad guard;
      sgd_update(lr, {w}, {w.grad()}, {}, {});
    };
    auto step = compile(body);
    for (int i = 0; i < 4; ++i) compiled ? step(vec({1, 1})) : body(vec({1, 1}));
    EXPECT_TRUE(!compiled || step.function()->captures() == 2);
    return std::pair(w.to_vector<float>(), w.grad().to_vector<float>());
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(Grads, MadeOutsideAreReadAtEachCall) {
  const Tensor w = vec({0, 0}).set_requires_grad();
  const Tensor lr = scalar(1);
  auto update = compile([&] {
    const NoGrad guard;
    sgd_update(lr, {w}, {w.grad()}, {}, {});
  });
  auto clear = compile([&] { w.set_grad({}); });
  for (int i = 1; i <= 3; ++i) {
    sum(mul(w, vec({1, 2}))).backward();  // adds up
    update();
  }
  EXPECT_EQ(w.to_vector<float>(), (Floats{-6, -12}));
  EXPECT_EQ(update.function()->captures(), 1);
  for (int i = 0; i < 2; ++i) {
    w.set_grad(vec({1, 1}));
    clear();
    EXPECT_FALSE(w.grad().defined());
  }
  EXPECT_EQ(clear.function()->captures(), 1);
}

TEST(Grads, WrittenInPlaceAreTheSameTensors) {
  const Tensor w = vec({1, 1}).set_requires_grad();
  auto halve = compile([&] { copy_(w.grad(), mul(w.grad(), 0.5)); });
  for (const float value : {8.0F, 4.0F}) {
    const Tensor held = vec({value, 2 * value});
    w.set_grad(held);
    halve();
    EXPECT_EQ(w.grad().impl(), held.impl());
    EXPECT_EQ(held.to_vector<float>(), (Floats{value / 2, value}));
  }
  EXPECT_EQ(halve.function()->captures(), 1);
}

TEST(Grads, AccumulateIntoOnesThatExist) {
  const Tensor w = vec({1, 2}).set_requires_grad();
  auto step = compile([&](const Tensor& x) { sum(mul(w, x)).backward(); });
  step(vec({1, 1}));
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{1, 1}));
  step(vec({1, 1}));  // there is a gradient now: captured again, adding to it
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{2, 2}));
  const Tensor held = w.grad();
  step(vec({1, 1}));
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{3, 3}));
  EXPECT_EQ(step.function()->captures(), 2);
  EXPECT_EQ(held.to_vector<float>(),
            (Floats{2, 2}));  // as in eager execution: a new tensor each time
  w.set_grad({});             // none again: the first plan serves
  step(vec({1, 1}));
  EXPECT_EQ(w.grad().to_vector<float>(), (Floats{1, 1}));
  EXPECT_EQ(step.function()->captures(), 2);
}

TEST(Grads, FreezingALeafCapturesAgain) {
  const Tensor w = vec({1, 2}).set_requires_grad();
  const Tensor v = vec({1, 2}).set_requires_grad();
  auto step = compile([&](const Tensor& x) {
    w.set_grad({});
    v.set_grad({});
    sum(mul(mul(w, v), x)).backward();
  });
  step(vec({1, 1}));
  v.set_requires_grad(false);
  v.set_grad({});
  step(vec({1, 1}));
  EXPECT_FALSE(v.grad().defined());
  EXPECT_TRUE(w.grad().defined());
  EXPECT_EQ(step.function()->captures(), 2);
}

TEST(Compile, ArgumentsMayRequireAGradient) {
  auto f = compile([](const Tensor& x) { return neg(x); });
  const Tensor x = vec({1}).set_requires_grad();
  f(x).backward();
  EXPECT_EQ(x.grad().item(), -1);
  const NoGrad guard;
  EXPECT_FALSE(f(x).requires_grad());
  expect_error<Error>("compile: an argument is undefined", [&] { f(Tensor()); });
}

TEST(Compile, NestedFunctionsBecomeOneGraph) {
  auto inner = compile([](const Tensor& x) { return mul(x, x); });
  auto outer = compile([&](const Tensor& x) { return add(inner(x), x); });
  EXPECT_EQ(outer(vec({3})).item(), 12);
  EXPECT_EQ(outer.function()->plan()->steps(), 1U);
  EXPECT_EQ(inner.function()->captures(), 0);
  EXPECT_EQ(inner(vec({4})).item(), 16);
}

TEST(Compile, AFailedCaptureCanBeTriedAgain) {
  bool broken = true;
  auto f = compile([&](const Tensor& x) {
    if (broken) add(x, ones({7}));
    return neg(x);
  });
  expect_error<ShapeError>("add: shapes", [&] { f(vec({1, 2})); });
  broken = false;
  EXPECT_EQ(f(vec({1, 2})).to_vector<float>(), (Floats{-1, -2}));
}

TEST(Random, TheStateAdvancesWithEachReplayAsItDoesEagerly) {
  const auto f = [](const Tensor& x) { return dropout(x, 0.5); };
  const Tensor x = ones({64});
  manual_seed(3);
  const Tensors eager = {f(x), f(x), f(x)};
  manual_seed(3);
  auto compiled = compile(f);
  for (const Tensor& expected : eager)
    EXPECT_EQ(compiled(x).to_vector<float>(), expected.to_vector<float>());
  EXPECT_NE(eager[0].to_vector<float>(), eager[1].to_vector<float>());
}

TEST(Random, GradientsUseTheMaskOfTheirReplay) {
  const Tensor w = ones({64}).set_requires_grad();
  auto step = compile([&](const Tensor& x) {
    w.set_grad({});
    const Tensor y = dropout(mul(w, x), 0.5);
    sum(y).backward();
    return y;
  });
  for (int i = 0; i < 2; ++i) {
    const Floats y = step(ones({64})).to_vector<float>();
    EXPECT_EQ(w.grad().to_vector<float>(), y);
  }
}

Tensor network(const Tensor& x, const Tensors& w) {
  const Tensor h = max_pool2d(relu(conv2d(x, w[0], w[1])));
  return linear(flatten(h, 1), w[2], w[3]);
}

struct Training {
  Tensors weights;
  Tensor lr = scalar(0.1);

  Training() {
    manual_seed(5);
    weights = {normal({6, 1, 3, 3}, 0, 0.3), zeros({6}), normal({10, 6 * 3 * 3}, 0, 0.1),
               zeros({10})};
    for (const Tensor& w : weights) w.set_requires_grad();
  }
  Tensor step(const Tensor& x, const Tensor& y) {
    const Tensor loss = cross_entropy(network(x, weights), y);
    loss.backward();
    const NoGrad guard;
    Tensors grads;
    for (const Tensor& w : weights) grads.push_back(w.grad());
    sgd_update(lr, weights, grads, {}, {});
    for (const Tensor& w : weights) w.set_grad({});
    return loss;
  }
};

TEST(Plan, TrainsLikeEagerBitForBitInNoMoreMemory) {
  set_deterministic(true);
  const Tensor x = uniform({32, 1, 8, 8}, -1, 1);
  const Tensor y = cast(slice(arange(40), 0, 3, 35), DType::i64);
  const Tensor target = sub(y, mul(cast(cast(div(y, 10), DType::i64), DType::i64), 10));
  Training eager;
  Training compiled;
  eager.step(x, target);
  const size_t before = memory_stats(Device::cpu()).allocated;
  runtime(Device::cpu()).reset_peak(0);
  eager.step(x, target);
  const size_t eager_bytes = memory_stats(Device::cpu()).peak - before;

  auto step = compile([&](const Tensor& a, const Tensor& b) { return compiled.step(a, b); });
  step(x, target);
  step(x, target);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(eager.step(x, target).to_vector<float>(), step(x, target).to_vector<float>())
        << "step " << i;
  for (size_t i = 0; i < eager.weights.size(); ++i)
    EXPECT_EQ(eager.weights[i].to_vector<float>(), compiled.weights[i].to_vector<float>());
  // The slots hold copies of the arguments, which eager need not make.
  const size_t slots = x.storage()->bytes() + target.storage()->bytes();
  EXPECT_LE(step.function()->plan()->planned_bytes(), eager_bytes + slots);
  EXPECT_EQ(step.function()->captures(), 1);
  set_deterministic(false);
}

TEST(Plan, PlansOfOneDeviceShareAnArena) {
  auto large = compile([](const Tensor& x) { return sum(mul(add(x, x), x)); });
  auto small = compile([](const Tensor& x) { return neg(mul(x, x)); });
  large(ones({10000}));
  const size_t before = memory_stats(Device::cpu()).allocated;
  const Tensor first = small(vec({1, 2, 3}));
  EXPECT_LT(memory_stats(Device::cpu()).allocated - before, 4096U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(large(full({10000}, i)).item(), 10000.0 * 2 * i * i);
    EXPECT_EQ(small(vec({1, 2, 3})).to_vector<float>(), (Floats{-1, -4, -9}));
  }
  EXPECT_EQ(first.to_vector<float>(), (Floats{-1, -4, -9}));
}

TEST(Compile, RepeatsAFunctionFromWhatTheLastCallLeft) {
  const Tensor state = vec({1, 2});
  int calls = 0;
  auto f = compile([&] {
    ++calls;
    copy_(state, mul(state, 2));
    return add(state, 1);
  });
  EXPECT_EQ(f.repeat(3).to_vector<float>(), (Floats{9, 17}));
  EXPECT_EQ(f().to_vector<float>(), (Floats{17, 33}));
  EXPECT_EQ(f.repeat(2).to_vector<float>(), (Floats{65, 129}));
  EXPECT_EQ(calls, 1);
  // As part of another function too.
  auto g = compile([&] { return f.repeat(2); });
  EXPECT_EQ(g().to_vector<float>(), (Floats{257, 513}));
  EXPECT_EQ(calls, 3);

  expect_error<Error>("at least once, got 0", [&] { f.repeat(0); });
  const Tensor w = vec({1, 2}).set_requires_grad();
  auto leaves_gradients = compile([&] { sum(mul(w, w)).backward(); });
  expect_error<Unsupported>("leaves no gradients", [&] { leaves_gradients.repeat(2); });
}

TEST(Compile, SeveralThreadsMayBeTheFirst) {
  for (int round = 0; round < 50; ++round) {
    auto f = compile([](const Tensor& x) { return mul(x, 2.0); });
    std::vector<std::thread> threads;
    std::atomic<int> wrong{0};
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        if (f(full({1 + t % 2}, t)).to_vector<float>()[0] != 2.0F * static_cast<float>(t)) ++wrong;
      });
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(f.function()->captures(), 2);
  }
}

TEST(Plan, SeveralThreadsMayRunOne) {
  auto f = compile([](const Tensor& x) { return sum(mul(x, x)); });
  f(ones({1000}));
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int t = 1; t <= 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) EXPECT_EQ(f(full({1000}, t)).item(), 1000.0 * t * t);
    });
  for (std::thread& t : threads) t.join();
}

TEST(Plan, EmptyTensorsRun) {
  auto f = compile([](const Tensor& x) -> Tensors { return {relu(x), sum(x)}; });
  const Tensors out = f(zeros({0, 4}));
  EXPECT_EQ(out[0].shape(), (Shape{0, 4}));
  EXPECT_EQ(out[1].item(), 0);
}

}  // namespace
}  // namespace mica
