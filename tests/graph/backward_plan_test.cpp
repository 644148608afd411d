// Compiled functions whose results are differentiated outside, and writes in place on the tape.
#include <gtest/gtest.h>

#include "mica/mica.h"
#include "mica/ops/fill/fill.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using Floats = std::vector<float>;

TEST(BackwardPlan, GivesWhatEagerGives) {
  set_deterministic(true);
  std::vector<Floats> all[2];
  for (const bool compiled : {false, true}) {
    manual_seed(4);
    nn::Sequential net(nn::Conv2d({.in = 1, .out = 3, .kernel = 3}), nn::ReLU(), nn::Flatten(),
                       nn::Linear({.in = 3 * 16, .out = 4}), nn::Dropout(0.5));
    const auto forward = [&](const Tensor& x) -> Tensors {
      const Tensor y = net(x);
      return {y, transpose(y, 0, 1), x};
    };
    auto f = compile(forward);
    for (int i = 0; i < 3; ++i) {
      const Tensor x = uniform({2, 1, 6, 6}, -1, 1).set_requires_grad();
      const Tensors out = compiled ? f(x) : forward(x);
      backward({out[0], out[1]}, {uniform({2, 4}, -1, 1), uniform({4, 2}, -1, 1)});
      all[compiled].push_back(out[0].to_vector<float>());
      all[compiled].push_back(x.grad().to_vector<float>());
      for (const Tensor& p : net.parameters()) all[compiled].push_back(p.grad().to_vector<float>());
    }
    EXPECT_TRUE(!compiled || f.function()->captures() == 1);
  }
  set_deterministic(false);
  EXPECT_EQ(all[1], all[0]);
}

TEST(BackwardPlan, KeepsWhatLiesInAnotherOrder) {
  const Tensor w = uniform({16, 16}, -1, 1).set_requires_grad();
  const Tensor x = uniform({2, 6, 16}, -1, 1);
  const Tensor cotangent = uniform({2, 2, 6, 8}, -1, 1);
  // Heads are an axis of a view, and the attention's result lies as they do.
  const auto attend = [&](const Tensor& in) {
    const Tensor q = transpose(reshape(matmul(in, w), {2, 6, 2, 8}), 1, 2);
    return scaled_dot_product_attention(q, mul(q, 2), q, {.causal = true});
  };
  attend(x).backward(cotangent);
  const Floats eager = w.grad().to_vector<float>();
  w.set_grad({});
  compile(attend)(x).backward(cotangent);
  const Floats compiled = w.grad().to_vector<float>();
  for (size_t i = 0; i < eager.size(); ++i) EXPECT_NEAR(compiled[i], eager[i], 1e-5);
}

TEST(BackwardPlan, OfOneResultOfSeveral) {
  const Tensor w = full({3}, 2).set_requires_grad();
  const Tensor v = full({3}, 3).set_requires_grad();
  auto f = compile([&](const Tensor& x) -> Tensors { return {mul(w, x), exp(v), neg(x)}; });
  const Tensors out = f(full({3}, 5));
  EXPECT_TRUE(out[0].requires_grad() && out[1].requires_grad() && !out[2].requires_grad());
  sum(out[0]).backward();
  EXPECT_EQ(w.grad().to_vector<float>(), Floats(3, 5));
  EXPECT_FALSE(v.grad().defined());
  const NoGrad guard;
  EXPECT_FALSE(f(full({3}, 5))[0].requires_grad());
}

TEST(BackwardPlan, SeesWritesInBetween) {
  const Tensor w = full({3}, 2).set_requires_grad();
  auto f = compile([&](const Tensor& x) { return mul(w, x); });
  const Tensor x = full({3}, 5);
  const Tensor y = f(x);
  fill_(x, 1);
  expect_error<Error>("modified afterwards", [&] { sum(y).backward(); });
}

TEST(BackwardPlan, RefusesWhatWouldBeLost) {
  const Tensor w = full({3}, 2).set_requires_grad();
  const Tensor outside = exp(w);
  auto f = compile([&](const Tensor& x) { return mul(outside, x); });
  expect_error<Unsupported>("a result depends on exp, which was recorded outside",
                            [&] { f(ones({3})); });
  auto g = compile([&](const Tensor& x) {
    sum(mul(w, x)).backward();
    return neg(x);
  });
  expect_error<Unsupported>("the .grad of an argument (f32[3]) is used inside",
                            [&] { g(ones({3}).set_requires_grad()); });
}

TEST(RecordedWrites, GiveTheGradientOfWhatWasWritten) {
  for (const bool compiled : {false, true}) {
    const Tensor w = arange(1, 5, 1).set_requires_grad();
    const auto body = [&](const Tensor& x) {
      w.set_grad({});
      const Tensor y = zeros({4});
      copy_(y, mul(w, x));
      add_(y, mul(w, w));
      const Tensor z = mul(y, 2.0);
      copy_(z, sum(y));
      sum(mul(z, x)).backward();
      return y.detach();
    };
    auto f = compile(body);
    for (int i = 1; i <= 2; ++i) {
      const Tensor x = full({4}, i);
      (compiled ? f(x) : body(x));
      Floats expected;
      for (int k = 1; k <= 4; ++k)
        expected.push_back(4.0F * static_cast<float>(i) * static_cast<float>(i + 2 * k));
      EXPECT_EQ(w.grad().to_vector<float>(), expected);
    }
  }
}

TEST(RecordedWrites, AreRefusedWhereSomebodyElseWouldLoseThem) {
  const Tensor w = ones({4}).set_requires_grad();
  expect_error<Error>("writes to a tensor that requires a gradient", [&] { fill_(w, 1); });
  const Tensor y = zeros({4});
  const Tensor other = y.detach();
  expect_error<Unsupported>("made by detach() or under NoGrad", [&] { copy_(other, w); });
  expect_error<Error>("writes to a view of a tensor f32[4] that requires a gradient",
                      [&] { fill_(slice(w, 0, 0, 2), 1); });
  const Tensor alone = zeros({4});
  auto f = compile([&](const Tensor& x) {
    copy_(alone, mul(w, x));
    return x;
  });
  expect_error<Unsupported>("writes something with a history to a tensor from outside",
                            [&] { f(ones({4})); });
}

}  // namespace
}  // namespace mica
