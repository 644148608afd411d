#include "mica/optim/clip_grad.h"

#include <gtest/gtest.h>

#include "tests/unit/expect_error.h"
#include "tests/unit/optim_problem.h"

namespace mica {
namespace {

TEST(ClipGrad, IsThatOfPyTorch) {
  const Make sgd = maker<optim::SGD>(optim::SGDOptions{.lr = 0.03, .momentum = 0.9});
  expect_golden("norm", golden::kClipNorm, sgd,
                [](const Tensors& p) { optim::clip_grad_norm_(p, 1.5); });
  expect_golden("value", golden::kClipValue, sgd,
                [](const Tensors& p) { optim::clip_grad_value_(p, 0.7); });
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
