#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/mica.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using testing::ElementsAre;

std::vector<float> values(const Tensor& t) { return t.to_vector<float>(); }

/// x^3 times k.
struct Cube {
  static constexpr const char* kName = "cube";
  static Tensor forward(FunctionContext& c, const Tensor& x, double k) {
    EXPECT_FALSE(grad_enabled());
    c.save({x});
    c.set(k);
    return mul(mul(mul(x, x), x), k);
  }
  static Tensors backward(FunctionContext& c, const Tensors& g) {
    const Tensor x = c.saved()[0];
    return {mul(g[0], mul(mul(x, x), 3 * c.get<double>()))};
  }
};

/// 1 / x, whose gradient is computed from its result.
const CustomFunction& inverse() {
  static const CustomFunction f(
      "inverse",
      [](FunctionContext& c, const Tensors& in) -> Tensors {
        const Tensor y = div(ones_like(in[0]), in[0]);
        c.save({y});
        return {y};
      },
      [](FunctionContext& c, const Tensors& g) -> Tensors {
        const Tensor y = c.saved()[0];
        return {neg(mul(g[0], mul(y, y)))};
      });
  return f;
}

TEST(Function, FromAStruct) {
  const Tensor x = tensor({1.0F, 2.0F}, {2}).set_requires_grad();
  const Tensor y = apply_function<Cube>(x, 2.0);
  EXPECT_THAT(values(y.detach()), ElementsAre(2, 16));
  sum(y).backward();
  EXPECT_THAT(values(x.grad()), ElementsAre(6, 24));
}

TEST(Function, FromLambdasOfBothOrders) {
  const Tensor x = uniform({5}, 1, 2, {.dtype = DType::f64}).set_requires_grad();
  const auto f = [](const Tensors& in) { return inverse()(in); };
  EXPECT_TRUE(gradcheck(f, {x})) << gradcheck(f, {x}).message;
  EXPECT_TRUE(gradgradcheck(f, {x})) << gradgradcheck(f, {x}).message;
  const auto cube = [](const Tensors& in) -> Tensors { return {apply_function<Cube>(in[0], 3.0)}; };
  EXPECT_TRUE(gradgradcheck(cube, {x})) << gradgradcheck(cube, {x}).message;
}

TEST(Function, SeveralInputsAndOutputs) {
  const CustomFunction f(
      "pair",
      [](FunctionContext& c, const Tensors& in) -> Tensors {
        c.save(in);
        EXPECT_EQ(c.needs(0), in[0].requires_grad());
        EXPECT_FALSE(c.needs(1));
        return {mul(in[0], in[1]), add(in[0], in[1])};
      },
      [](FunctionContext& c, const Tensors& g) -> Tensors {
        return {add(mul(g[0], c.saved()[1]), g[1]), Tensor()};
      });
  const Tensor a = tensor({2.0F}, {1}).set_requires_grad();
  const Tensor b = tensor({5.0F}, {1});
  const Tensors y = f({a, b});
  mul(y[0], 10).backward();  // the other output's cotangent is zero
  EXPECT_EQ(a.grad().item(), 50);
  EXPECT_FALSE(f({b, b})[0].requires_grad());
}

TEST(Function, MayReturnAnInputAsItIs) {
  const CustomFunction twice(
      "straight_through", [](FunctionContext&, const Tensors& in) -> Tensors { return in; },
      [](FunctionContext&, const Tensors& g) -> Tensors { return {mul(g[0], 2)}; });
  const Tensor x = tensor({3.0F}, {1}).set_requires_grad();
  const Tensor y = twice({x})[0];
  EXPECT_TRUE(x.is_leaf());
  EXPECT_EQ(y.storage(), x.storage());
  y.backward();
  EXPECT_EQ(x.grad().item(), 2);
}

TEST(Function, ChecksWhatItSaved) {
  const Tensor x = tensor({1.0F}, {1}).set_requires_grad();
  const Tensor h = mul(x, 2);
  const Tensor y = apply_function<Cube>(h, 1.0);
  fill_(h.detach(), 0);
  expect_error<Error>("cube: a tensor it saved for backward (f32[1]) was modified afterwards",
                      [&] { y.backward(); });
  const Tensor z = inverse()({x})[0];
  fill_(z.detach(), 0);
  expect_error<Error>("inverse: a tensor it saved for backward", [&] { z.backward(); });
  const Tensor once = apply_function<Cube>(x, 1.0);
  once.backward();
  expect_error<Error>("cube: backward runs a second time", [&] { once.backward(); });
}

TEST(Function, MistakesAreNamed) {
  const auto with = [](FunctionBackward backward) {
    return CustomFunction(
        "mistaken", [](FunctionContext&, const Tensors& in) -> Tensors { return {mul(in[0], 2)}; },
        std::move(backward));
  };
  const Tensor x = ones({2}).set_requires_grad();
  expect_error<Error>("mistaken: its backward gave 2 gradients for 1 inputs", [&] {
    sum(with([](FunctionContext&, const Tensors& g) -> Tensors { return {g[0], g[0]}; })({x})[0])
        .backward();
  });
  expect_error<ShapeError>(
      "mistaken: the gradient of input 0 must have its shape [2], got []", [&] {
        sum(with([](FunctionContext&, const Tensors& g) -> Tensors { return {sum(g[0])}; })({x})[0])
            .backward();
      });
  expect_error<DTypeError>("mistaken: the gradient of input 0 must be f32 as it is, got f64", [&] {
    sum(with([](FunctionContext&, const Tensors& g) -> Tensors {
      return {cast(g[0], DType::f64)};
    })({x})[0])
        .backward();
  });
  expect_error<Unsupported>("mistaken: its backward is not made of ops", [&] {
    const Tensor y = with([](FunctionContext&, const Tensors& g) -> Tensors {
      return {mul(g[0].detach(), 2)};
    })({x})[0];
    grad({sum(mul(y, y))}, {x}, {}, {.create_graph = true});
  });
}

TEST(Function, LeavesNothingBehind) {
  const auto run = [] {
    const Tensor x = ones({1000}).set_requires_grad();
    const Tensor y = inverse()({x})[0];  // saves its own output
    sum(apply_function<Cube>(y, 1.0));
  };
  run();  // makes what the process keeps
  const size_t before = memory_stats(Device::cpu()).allocated;
  run();
  EXPECT_EQ(memory_stats(Device::cpu()).allocated, before);
}

TEST(Function, InACompiledFunction) {
  const Tensor w = tensor({2.0F, 4.0F}, {2}).set_requires_grad();
  auto step = compile([&](const Tensor& x) -> Tensors {
    const Tensor loss = sum(mul(apply_function<Cube>(w, 1.0), inverse()({mul(w, x)})[0]));
    return {loss.detach(), grad({loss}, {w})[0]};
  });
  for (const float x : {1.0F, 2.0F}) {
    const Tensors got = step(tensor({x, x}, {2}));  // w^2 / x
    EXPECT_FLOAT_EQ(static_cast<float>(got[0].item()), 20 / x);
    EXPECT_THAT(values(got[1]), ElementsAre(testing::FloatEq(4 / x), testing::FloatEq(8 / x)));
  }
  EXPECT_EQ(step.function()->captures(), 1);
}

}  // namespace
}  // namespace mica
