// Gradients that several backward passes add to, and updates of many parameters, inside one graph.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/graph/passes/passes.h"
#include "mica/graph/plan.h"
#include "mica/mica.h"

namespace mica {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

using Body = std::function<Tensors(std::span<const Tensor>)>;

constexpr int64_t kSize = 1 << 16;
constexpr size_t kBytes = static_cast<size_t>(kSize) * 4;

/// A backward pass for each argument, then an update.
Body several_passes(const Tensor& w, const Tensor& lr) {
  return [=](std::span<const Tensor> in) -> Tensors {
    for (const Tensor& x : in) sum(mul(w, x)).backward();
    const NoGrad guard;
    sgd_update(lr, {w}, {w.grad()}, {}, {});
    w.set_grad({});
    return {};
  };
}

TEST(GradAccumulation, AddsInPlaceWithoutCopies) {
  const TensorOptions null{.device = Device::null()};
  const Tensor w = zeros({kSize}, null).set_requires_grad();
  const std::vector<TensorSpec> specs(4,
                                      TensorSpec::contiguous({kSize}, DType::f32, Device::null()));
  for (const bool fused : {true, false}) {
    set_pass("fuse_elementwise", fused);
    const Plan plan(capture(several_passes(w, zeros({}, null)), specs));
    for (const Node& node : plan.graph().nodes) {
      EXPECT_STRNE(node.op->name, "copy");
      EXPECT_STRNE(node.op->name, "copy_into");
    }
    // The arguments, the sum so far and what is added to it.
    EXPECT_LT(plan.planned_bytes(), 7 * kBytes);
  }
  set_pass("fuse_elementwise", true);
}

TEST(GradAccumulation, ComputesTheSame) {
  manual_seed(1);
  const Tensors arguments = {uniform({kSize}, -1, 1), uniform({kSize}, -1, 1),
                             uniform({kSize}, -1, 1)};
  const Tensor start = uniform({kSize}, -1, 1);
  const auto train = [&](bool compiled) {
    const Tensor w = clone(start).set_requires_grad();
    const Body step = several_passes(w, scalar(0.1));
    CompiledFunction f(step);
    for (int i = 0; i < 3; ++i) compiled ? f(arguments) : step(arguments);
    return w.to_vector<float>();
  };
  set_deterministic(true);
  EXPECT_EQ(train(true), train(false));
  set_deterministic(false);
}

TEST(GradAccumulation, OverSeveralCallsCapturesOnce) {
  // What was there before the capture is added to where it lies.
  const Tensor w = ones({8}).set_requires_grad();
  const Tensor x = full({8}, 2);
  w.set_grad(zeros({8}));
  auto f = compile([&](const Tensor& in) { sum(mul(w, in)).backward(); });
  for (int i = 1; i <= 3; ++i) {
    f(x);
    EXPECT_EQ(w.grad().to_vector<float>(), std::vector<float>(8, 2.0F * static_cast<float>(i)));
  }
  EXPECT_EQ(f.function()->captures(), 1);
}

/// Runs a body that writes to w three times, eagerly and compiled; returns the steps of a run.
size_t expect_same_writes(const std::function<void(const Tensor& w, const Tensor& x)>& body) {
  manual_seed(3);
  const Tensor start = uniform({6, 6}, -1, 1);
  const Tensor x = uniform({6, 6}, -1, 1);
  const Tensor eager = clone(start);
  const Tensor w = clone(start);
  auto f = compile([&](const Tensor& in) { body(w, in); });
  set_deterministic(true);
  for (int i = 0; i < 3; ++i) {
    body(eager, x);
    f(x);
  }
  set_deterministic(false);
  EXPECT_EQ(w.to_vector<float>(), eager.to_vector<float>());
  return f.function()->plan()->steps();
}

TEST(InPlace, WhatIsCopiedOverATensorIsComputedThere) {
  EXPECT_EQ(expect_same_writes([](const Tensor& w, const Tensor& x) { add_(w, x); }), 1U);
  EXPECT_EQ(expect_same_writes([](const Tensor& w, const Tensor& x) {
              add_(w, mul(x, x));
              add_(w, x);
            }),
            2U);
  EXPECT_EQ(expect_same_writes([](const Tensor& w, const Tensor& x) { copy_(w, matmul(x, x)); }),
            1U);
}

TEST(InPlace, WhatIsStillNeededIsNotOverwritten) {
  EXPECT_EQ(expect_same_writes([](const Tensor& w, const Tensor& x) { copy_(w, matmul(x, w)); }),
            2U);
  EXPECT_EQ(expect_same_writes(
                [](const Tensor& w, const Tensor& x) { copy_(w, add(x, transpose(w, 0, 1))); }),
            2U);
  // The old values are read after the new ones are made.
  expect_same_writes([](const Tensor& w, const Tensor& x) {
    const Tensor y = matmul(x, x);
    const Tensor z = matmul(w, x);
    copy_(w, y);
    add_(w, z);
  });
  const Tensor w = ones({4});
  auto f = compile([&](const Tensor& x) {
    const Tensor y = exp(x);
    copy_(w, y);
    return y;
  });
  const Tensor y = f(zeros({4}));
  fill_(w, 7);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{1, 1, 1, 1}));
}

TEST(Updates, OfAllParametersAreOneStep) {
  manual_seed(2);
  nn::Sequential net(nn::Conv2d({.in = 1, .out = 4, .kernel = 3}), nn::ReLU(), nn::Flatten(),
                     nn::Linear({.in = 4 * 36, .out = 8}), nn::GELU(),
                     nn::Linear({.in = 8, .out = 3}));
  const Tensor x = uniform({5, 1, 8, 8}, -1, 1);
  const auto expect_one = [&](optim::Optimizer& optimizer, const char* op) {
    auto step = compile([&](const Tensor& in) {
      const Tensor loss = mean(square(net(in)));
      loss.backward();
      optimizer.step();
      optimizer.zero_grad();
      return loss;
    });
    step(x);
    EXPECT_THAT(step.function()->plan()->kernels(), Contains(HasSubstr(op)).Times(1));
    EXPECT_THAT(step.function()->plan()->kernels(), Not(Contains(HasSubstr("copy"))));
  };
  optim::SGD sgd(net.parameters(), {.lr = 0.01, .momentum = 0.9});
  expect_one(sgd, "sgd_update");
  optim::Adam adam(net.parameters(), {.lr = 0.01});
  expect_one(adam, "adam_update");
}

}  // namespace
}  // namespace mica
