// What cannot be captured, planned or replayed is refused with the reason, or captured again; and
// eager execution goes on as if nothing had been.
#include <gtest/gtest.h>

#include "mica/graph/plan.h"
#include "mica/mica.h"
#include "mica/ops/fill/fill.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

/// A leaf with a gradient, and whether both work eagerly.
struct Leaf {
  Tensor weight = ones({4}).set_requires_grad();
  Tensor grad = full({4}, 7);

  Leaf() { weight.set_grad(grad); }
  void expect_untouched() const {
    EXPECT_EQ(current_recorder(), nullptr);
    EXPECT_EQ(current_grad_watcher(), nullptr);
    EXPECT_EQ(weight.grad().impl(), grad.impl());
    EXPECT_EQ(weight.dtype(), DType::f32);
    EXPECT_EQ(weight.to_vector<float>(), std::vector<float>(4, 1));
    sum(mul(weight, 2.0)).backward();
    EXPECT_EQ(weight.grad().to_vector<float>(), std::vector<float>(4, 9));
  }
};

/// Compiles a function that trains a leaf and then does what is not possible.
template <class E, class F>
void expect_refusal(const std::string& message, F&& f, const Tensor& x = ones({4})) {
  SCOPED_TRACE(message);
  const Leaf leaf;
  auto step = compile([&](const Tensor& input) {
    leaf.weight.set_grad({});
    sum(mul(leaf.weight, 3.0)).backward();
    return f(input);
  });
  for (int call = 0; call < 2; ++call) expect_error<E>(message, [&] { step(x); });
  EXPECT_EQ(step.function()->captures(), 0);
  leaf.expect_untouched();
}

TEST(Failures, ValuesOfTheHost) {
  const std::string message = "was asked for while a graph is captured";
  expect_refusal<Unsupported>(message, [](const Tensor& x) { return full({2}, sum(x).item()); });
  expect_refusal<Unsupported>(message,
                              [](const Tensor& x) { return sum(x).item() > 0 ? neg(x) : exp(x); });
  expect_refusal<Unsupported>(message, [](const Tensor& x) {
    const auto values = x.to_vector<float>();
    return full({2}, double{values[0]});
  });
  expect_refusal<Unsupported>(message, [](const Tensor& x) {
    static_cast<float*>(x.data())[0] = 1;
    return x;
  });
}

TEST(Failures, ShapesThatDependOnValues) {
  expect_refusal<Unsupported>("captured", [](const Tensor& x) { return nonzero(x); });
  expect_refusal<Unsupported>("captured",
                              [](const Tensor& x) { return masked_select(x, gt(x, 0.0)); });
}

TEST(Failures, OtherDevices) {
  expect_refusal<Unsupported>("to: a copy from cpu to null cannot be part of a captured graph",
                              [](const Tensor& x) { return neg(to(x, Device::null())); });
  const Tensor elsewhere = zeros({4}, {.device = Device::null()});
  expect_refusal<Unsupported>("a graph has one device", [&](const Tensor& x) {
    return stack({neg(x), to(neg(elsewhere), Device::cpu())}, 0);
  });
}

TEST(Failures, OfTheFunctionItselfLeaveWhatItDidBefore) {
  const Tensor elsewhere = zeros({4}, {.device = Device::null()});
  const auto run = [&](bool compiled) {
    const Leaf leaf;
    const Tensor count = zeros({4});
    const auto body = [&](const Tensor& x) {
      leaf.weight.set_grad({});
      sum(mul(leaf.weight, 3.0)).backward();
      add_(count, x);
      add_(count, add(x, elsewhere));
    };
    auto step = compile(body);
    for (int call = 0; call < 2; ++call)
      expect_error<DeviceError>("add: inputs are on different devices, cpu and null",
                                [&] { compiled ? step(ones({4})) : body(ones({4})); });
    EXPECT_EQ(current_recorder(), nullptr);
    return std::pair(count.to_vector<float>(), leaf.weight.grad().to_vector<float>());
  };
  EXPECT_EQ(run(true), run(false));
  EXPECT_EQ(run(true).first, std::vector<float>(4, 2));
}

TEST(Failures, BackwardIntoHistoryOfTheOutside) {
  const Tensor w = ones({4}).set_requires_grad();
  const Tensor y = exp(w);
  expect_refusal<Unsupported>(
      "exp: backward inside a compiled function reaches a call that was recorded outside of it",
      [&](const Tensor& x) {
        sum(mul(y, x)).backward();
        return neg(x);
      });
}

TEST(Failures, AModuleIsNotMovedWhileItIsCaptured) {
  nn::Linear layer(4, 2);
  const Tensor weight = layer.parameters()[0];
  const std::vector<float> before = weight.to_vector<float>();
  expect_refusal<Unsupported>("was asked for while a graph is captured", [&](const Tensor& x) {
    layer.to(DType::f64);
    return layer(cast(x, DType::f64)).detach();
  });
  EXPECT_EQ(layer(ones({4})).numel(), 2);
  EXPECT_EQ(weight.to_vector<float>(), before);
}

TEST(Failures, APlanThatCannotBeMade) {
  const Leaf leaf;
  auto step = compile([&](const Tensor& x) {
    leaf.weight.set_grad({});
    const Tensor large = full({1 << 20, 1 << 20, 1 << 10}, 1);  // 4 PB
    sum(mul(leaf.weight, x)).backward();
    return add(large, sum(x));
  });
  for (int call = 0; call < 2; ++call)
    expect_error<OutOfMemory>("out of memory", [&] { step(ones({4})); });
  EXPECT_EQ(step.function()->captures(), 0);
  EXPECT_EQ(step.function()->plan(), nullptr);
  leaf.expect_untouched();
}

TEST(Failures, ARunThatFails) {
  const Leaf leaf;
  const Tensor table = ones({3, 4});
  auto step = compile([&](const Tensor& indices) {
    leaf.weight.set_grad({});
    const Tensor rows = index_select(table, 0, indices);
    sum(mul(leaf.weight, rows)).backward();
    return sum(rows);
  });
  const uint32_t version = table.storage()->version();
  expect_error<IndexError>("", [&] { step(tensor<int64_t>({0, 9}, {2})); });
  EXPECT_EQ(table.storage()->version(), version);
  EXPECT_EQ(leaf.weight.grad().impl(), leaf.grad.impl());
  EXPECT_EQ(step(tensor<int64_t>({0, 2}, {2})).item(), 8);  // the same plan
  EXPECT_EQ(leaf.weight.grad().to_vector<float>(), std::vector<float>(4, 2));
  EXPECT_EQ(step.function()->captures(), 1);
}

TEST(Changes, OfAParametersTypeCaptureAgain) {
  nn::Linear layer(4, 2);
  auto f = compile(
      [&](const Tensor& x) { return layer(cast(x, layer.parameters()[0].dtype())).detach(); });
  f(ones({1, 4}));
  layer.to(DType::f64);
  const Tensor y = f(ones({1, 4}));
  EXPECT_EQ(y.dtype(), DType::f64);
  EXPECT_EQ(y.to_vector<double>(), layer(ones({1, 4}, {.dtype = DType::f64})).to_vector<double>());
  EXPECT_EQ(f.function()->captures(), 2);
}

TEST(Changes, OfABuffersMemoryCaptureAgain) {
  // Of whole numbers, which no gradient is asked of.
  Tensor count = zeros({1}, {.dtype = DType::i64});
  auto f = compile([&](const Tensor& x) {
    copy_(count, add(count, 1));
    return neg(x);
  });
  f(ones({2}));
  count.impl()->storage = clone(count).storage();
  f(ones({2}));
  f(ones({2}));
  EXPECT_EQ(count.to_vector<int64_t>()[0], 3);
  EXPECT_EQ(f.function()->captures(), 2);
}

TEST(Changes, ToAnotherDeviceAreRefusedOrCapturedAgain) {
  nn::Linear layer(4, 2);
  auto f = compile([&](const Tensor& x) { return layer(x).detach(); });
  const std::vector<float> before = f(ones({1, 4})).to_vector<float>();
  layer.to(Device::null());
  expect_error<DeviceError>("linear: inputs are on different devices, cpu and null",
                            [&] { f(ones({1, 4})); });
  const Tensor elsewhere = f(ones({1, 4}, {.device = Device::null()}));
  EXPECT_EQ(elsewhere.device(), Device::null());
  EXPECT_EQ(relu(ones({3})).numel(), 3);
}

TEST(Changes, AParameterThatIsFreedStaysWhileAPlanReadsIt) {
  auto weight = std::make_shared<Tensor>(full({4}, 3));
  auto f =
      compile([weight = std::weak_ptr(weight)](const Tensor& x) { return mul(x, *weight.lock()); });
  f(ones({4}));
  weight.reset();
  const Tensor other = full({4}, 5);  // would take the memory
  EXPECT_EQ(f(ones({4})).to_vector<float>(), std::vector<float>(4, 3));
  EXPECT_EQ(f.function()->captures(), 1);
}

}  // namespace
}  // namespace mica
