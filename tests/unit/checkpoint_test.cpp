#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/mica.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using testing::ElementsAre;

std::vector<float> values(const Tensor& t) { return t.to_vector<float>(); }

Tensor parameter(const Shape& shape, uint64_t seed) {
  manual_seed(seed);
  return uniform(shape, -1, 1).set_requires_grad();
}

/// Two layers with dropout between them.
struct Block {
  Tensor w1 = parameter({8, 8}, 1);
  Tensor w2 = parameter({8, 8}, 2);
  int runs = 0;
  Tensor operator()(const Tensor& x) {
    ++runs;
    return relu(linear(dropout(relu(linear(x, w1)), 0.5), w2));
  }
};

struct Result {
  std::vector<float> y, dx, dw1, dw2;
  bool operator==(const Result&) const = default;
};

Result run(Block& block, bool checkpointed) {
  const Tensor x = parameter({4, 8}, 3);
  manual_seed(7);
  const Tensor h = mul(x, 2);
  const Tensor y =
      checkpointed ? checkpoint([&](const Tensor& in) { return block(in); }, h) : block(h);
  uniform({5});  // what is drawn in between must not matter
  for (const Tensor& t : {block.w1, block.w2}) t.set_grad({});
  sum(mul(y, y)).backward();
  return {values(y.detach()), values(x.grad()), values(block.w1.grad()), values(block.w2.grad())};
}

TEST(Checkpoint, GivesTheSameGradientsWithDropoutAndParametersFromOutside) {
  Block block;
  const Result plain = run(block, false);
  EXPECT_EQ(block.runs, 1);
  EXPECT_EQ(run(block, true), plain);
  EXPECT_EQ(block.runs, 3);
}

TEST(Checkpoint, LeavesTheGeneratorWhereItWas) {
  Block block;
  run(block, false);
  const auto after_plain = values(uniform({4}));
  run(block, true);
  EXPECT_EQ(values(uniform({4})), after_plain);
}

TEST(Checkpoint, Nested) {
  Block block;
  const Result plain = run(block, false);
  const Tensor x = parameter({4, 8}, 3);
  manual_seed(7);
  const Tensor y = checkpoint(
      [&](const Tensor& h) {
        const Tensor first = checkpoint(
            [&](const Tensor& in) { return dropout(relu(linear(in, block.w1)), 0.5); }, h);
        return checkpoint([&](const Tensor& in) { return relu(linear(in, block.w2)); }, first);
      },
      mul(x, 2));
  for (const Tensor& t : {block.w1, block.w2}) t.set_grad({});
  sum(mul(y, y)).backward();
  EXPECT_EQ((Result{values(y.detach()), values(x.grad()), values(block.w1.grad()),
                    values(block.w2.grad())}),
            plain);
}

TEST(Checkpoint, KeepsLessMemory) {
  const Tensor w = parameter({64, 64}, 1);
  const auto layers = [&](Tensor x) {
    for (int i = 0; i < 8; ++i) x = relu(linear(x, w));
    return x;
  };
  const Tensor x = parameter({256, 64}, 2);
  const auto held = [&](bool checkpointed) {
    const size_t before = memory_stats(Device::cpu()).allocated;
    const Tensor y = checkpointed ? checkpoint(layers, x) : layers(x);
    return memory_stats(Device::cpu()).allocated - before;
  };
  const size_t one = size_t{256} * 64 * 4;
  EXPECT_GE(held(false), 8 * one);
  EXPECT_LE(held(true), one + one / 2);
}

TEST(Checkpoint, TensorsItReadsFromOutsideMayHaveAHistory) {
  const Tensor x = parameter({3}, 1);
  const Tensor a = mul(x, 3);  // z is made from y, and the function reads both
  const Tensor y = mul(a, x);
  const auto loss = [&](bool checkpointed) {
    const auto f = [&](const Tensor& in) { return mul(mul(in, y), add(a, in)); };
    return sum(checkpointed ? checkpoint(f, a) : f(a));
  };
  const Tensor plain = grad({loss(false)}, {x}, {}, {.retain_graph = true})[0];
  const Tensor ours = grad({loss(true)}, {x}, {}, {.retain_graph = true})[0];
  EXPECT_THAT(values(ours), testing::Pointwise(testing::FloatEq(), values(plain)));
}

TEST(Checkpoint, ALeafGivenTwiceGetsItsGradientOnce) {
  const Tensor x = tensor({3.0F}, {1}).set_requires_grad();
  const Tensor y = checkpoint(
      [&](const Tensors& in) -> Tensors { return {mul(mul(in[0], in[1]), x)}; }, {x, x})[0];
  y.backward();
  EXPECT_EQ(x.grad().item(), 27);
  const Tensor h = mul(x, 1);
  x.set_grad({});
  checkpoint([&](const Tensors& in) -> Tensors { return {mul(in[0], in[1])}; }, {h, h})[0]
      .backward();
  EXPECT_EQ(x.grad().item(), 6);
}

TEST(Checkpoint, SeveralOutputsOfWhichSomeHaveNoGradient) {
  const Tensor x = tensor({1.0F, 3.0F, 2.0F}, {3}).set_requires_grad();
  const Tensors y = checkpoint(
      [](const Tensors& in) -> Tensors {
        return {mul(in[0], 2), argmax(in[0].detach()), mul(in[0].detach(), 5), mul(in[0], in[0])};
      },
      {x});
  ASSERT_EQ(y.size(), 4U);
  EXPECT_TRUE(y[0].requires_grad());
  EXPECT_FALSE(y[1].requires_grad());
  EXPECT_FALSE(y[2].requires_grad());
  EXPECT_EQ(y[1].item(), 1);
  sum(add(y[0], mul(y[3], y[2]))).backward();
  EXPECT_THAT(values(x.grad()), ElementsAre(12, 92, 42));
}

TEST(Checkpoint, SecondOrder) {
  const Tensor x = uniform({4}, 1, 2, {.dtype = DType::f64}).set_requires_grad();
  const Tensor w = uniform({4}, 1, 2, {.dtype = DType::f64}).set_requires_grad();
  const auto f = [&](const Tensors& in) -> Tensors {
    const Tensor h = mul(in[0], in[0]);
    return checkpoint([&](const Tensors& t) -> Tensors { return {mul(mul(t[0], t[0]), t[1])}; },
                      {h, in[1]});
  };
  EXPECT_TRUE(gradcheck(f, {x, w})) << gradcheck(f, {x, w}).message;
  EXPECT_TRUE(gradgradcheck(f, {x, w})) << gradgradcheck(f, {x, w}).message;
  // Also of a parameter that is not given.
  const auto g = [](const Tensors& in) -> Tensors {
    return {checkpoint([w2 = in[1]](const Tensor& t) { return mul(mul(t, t), w2); }, in[0])};
  };
  EXPECT_TRUE(gradgradcheck(g, {x, w})) << gradgradcheck(g, {x, w}).message;
}

TEST(Checkpoint, HooksRunOnce) {
  const Tensor w = tensor({2.0F}, {1}).set_requires_grad();
  const Tensor x = mul(w, 1);
  int on_leaf = 0;
  int on_result = 0;
  int inside = 0;
  const auto count = [](int& n) {
    return [&n](const Tensor&) {
      ++n;
      return Tensor();
    };
  };
  add_hook(w, count(on_leaf));
  add_hook(x, count(on_result));
  const Tensor y = checkpoint(
      [&](const Tensor& in) {
        const Tensor h = mul(in, w);
        add_hook(h, count(inside));
        return mul(h, x);
      },
      x);
  y.backward();
  EXPECT_EQ(on_leaf, 1);
  EXPECT_EQ(on_result, 1);
  EXPECT_EQ(inside, 1);
  EXPECT_EQ(w.grad().item(), 12);
}

TEST(Checkpoint, InACompiledFunction) {
  Block block;
  const Tensor x = parameter({4, 8}, 3).detach();
  const auto step = [&](bool checkpointed) {
    return [&block, checkpointed](const Tensor& in) -> Tensors {
      const Tensor h = mul(in, 2);
      const Tensor y =
          checkpointed ? checkpoint([&](const Tensor& t) { return block(t); }, h) : block(h);
      const Tensor loss = sum(mul(y, y));
      const Tensors g = grad({loss}, {block.w1, block.w2});
      return {loss.detach(), g[0], g[1]};
    };
  };
  auto plain = compile(step(false));
  auto ours = compile(step(true));
  set_deterministic(true);  // what is fused else is summed in another order
  manual_seed(5);
  std::vector<Tensors> expected;
  for (int i = 0; i < 3; ++i) expected.push_back(plain(x));
  manual_seed(5);
  for (int i = 0; i < 3; ++i) {
    const Tensors got = ours(x);
    for (size_t k = 0; k < got.size(); ++k) EXPECT_EQ(values(got[k]), values(expected[i][k]));
  }
  set_deterministic(false);
  EXPECT_EQ(ours.function()->captures(), 1);
  EXPECT_NE(values(expected[0][0]), values(expected[1][0]));  // dropout draws anew in each run
}

TEST(Checkpoint, WithoutAGradientIsACall) {
  const Tensor x = ones({2});
  int runs = 0;
  const Tensor y = checkpoint(
      [&](const Tensor& in) {
        ++runs;
        return mul(in, 2);
      },
      x);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(runs, 1);
  const NoGrad guard;
  EXPECT_FALSE(
      checkpoint([&](const Tensor& in) { return mul(in, 2); }, ones({2}).set_requires_grad())
          .requires_grad());
}

TEST(Checkpoint, FindsWhatIsNotTheSameTheSecondTime) {
  const Tensor x = ones({2}).set_requires_grad();
  int runs = 0;
  const Tensor other = checkpoint(
      [&](const Tensor& in) { return ++runs == 1 ? mul(in, 2) : mul(dropout(in, 0.5), 2); }, x);
  expect_error<Error>("checkpoint: the function drew other random numbers when it ran again",
                      [&] { sum(other).backward(); });
  const Tensor stranger = ones({2}).set_requires_grad();
  runs = 0;
  const Tensor more =
      checkpoint([&](const Tensor& in) { return ++runs == 1 ? mul(in, 2) : mul(in, stranger); }, x);
  expect_error<Error>("checkpoint: the function read other tensors when it ran again",
                      [&] { sum(more).backward(); });
  const Tensor changed = checkpoint([&](const Tensor& in) { return mul(in, stranger); }, x);
  {
    const NoGrad guard;
    fill_(stranger, 3);
  }
  expect_error<Error>("checkpoint: a tensor it saved for backward (f32[2]) was modified afterwards",
                      [&] { sum(changed).backward(); });
  const Tensor once = checkpoint([](const Tensor& in) { return mul(in, in); }, x);
  sum(once).backward();
  expect_error<Error>("checkpoint: backward runs a second time", [&] { sum(once).backward(); });
}

}  // namespace
}  // namespace mica
