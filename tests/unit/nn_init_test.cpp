#include "mica/nn/init.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "mica/ops/fill/fill.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using namespace nn::init;  // NOLINT(google-build-using-namespace)

struct Statistics {
  double mean, std, low, high;
};

Statistics statistics(const Tensor& t) {
  const Tensor values = t.detach();
  return {mean(values).item(), std(values).item(), min(values).item(), max(values).item()};
}

class Init : public testing::Test {
 protected:
  void SetUp() override { manual_seed(0); }
};

TEST_F(Init, FansCountTheKernel) {
  EXPECT_EQ(fans({6, 4}).in, 4);
  EXPECT_EQ(fans({6, 4}).out, 6);
  EXPECT_EQ(fans({6, 4, 3, 5}).in, 60);
  EXPECT_EQ(fans({6, 4, 3, 5}).out, 90);
  expect_error<ShapeError>("at least two axes", [] { fans({6}); });
}

TEST_F(Init, GainsArePyTorchs) {
  EXPECT_DOUBLE_EQ(gain(Nonlinearity::linear), 1);
  EXPECT_DOUBLE_EQ(gain(Nonlinearity::tanh), 5.0 / 3);
  EXPECT_DOUBLE_EQ(gain(Nonlinearity::relu), std::sqrt(2.0));
  EXPECT_DOUBLE_EQ(gain(Nonlinearity::leaky_relu, 0.2), std::sqrt(2 / 1.04));
  EXPECT_DOUBLE_EQ(gain(Nonlinearity::selu), 0.75);
}

TEST_F(Init, DeviationsFollowTheFormulas) {
  const Tensor t = zeros({100, 40, 5, 5}).set_requires_grad();  // fans of 1000 and 2500
  const auto expect = [&](double std, double bound) {
    const Statistics s = statistics(t);
    EXPECT_NEAR(s.mean, 0, 0.02 * std);
    EXPECT_NEAR(s.std, std, 0.02 * std);
    if (bound > 0) {
      EXPECT_LE(std::max(-s.low, s.high), bound);
      EXPECT_GE(std::max(-s.low, s.high), 0.99 * bound);
    }
  };
  kaiming_uniform_(t);
  expect(std::sqrt(2.0 / 1000), std::sqrt(6.0 / 1000));
  kaiming_normal_(t, {.mode = FanMode::out, .nonlinearity = Nonlinearity::tanh});
  expect(5.0 / 3 / std::sqrt(2500.0), 0);
  xavier_uniform_(t, 2);
  expect(2 * std::sqrt(2.0 / 3500), 2 * std::sqrt(6.0 / 3500));
  xavier_normal_(t);
  expect(std::sqrt(2.0 / 3500), 0);
  normal_(t, 0, 3);
  expect(3, 0);
  EXPECT_TRUE(t.requires_grad());
  EXPECT_TRUE(t.is_leaf());
  uniform_(t, 2, 3);
  EXPECT_NEAR(statistics(t).mean, 2.5, 0.01);
  constant_(t, 4);
  EXPECT_EQ(statistics(t).low, 4);
  ones_(t);
  EXPECT_EQ(statistics(t).high, 1);
  zeros_(t);
  EXPECT_EQ(statistics(t).high, 0);
}

TEST_F(Init, TruncatedNormalStaysInItsBounds) {
  const Tensor t = zeros({200, 100});
  trunc_normal_(t, {.mean = 1, .std = 2, .low = 0, .high = 5});
  const Statistics s = statistics(t);
  EXPECT_GE(s.low, 0);
  EXPECT_LE(s.high, 5);
  // Of a normal number between -0.5 and 2 deviations.
  EXPECT_NEAR(s.mean, 1 + 2 * 0.4455, 0.03);
  trunc_normal_(t);
  EXPECT_NEAR(statistics(t).std, 0.8796, 0.02);
  expect_error<Error>("low < high", [&] { trunc_normal_(t, {.low = 3}); });
}

TEST_F(Init, OrthogonalRowsOrColumns) {
  for (const Shape& shape : {Shape{20, 50}, Shape{50, 20}, Shape{16, 4, 3, 3}, Shape{1, 1}}) {
    const Tensor t = zeros(shape);
    orthogonal_(t, 3);
    const Tensor m = reshape(t, {shape[0], -1});
    const bool wide = m.size(0) <= m.size(1);
    const Tensor other = transpose(m, 0, 1);
    const auto product = (wide ? matmul(m, other) : matmul(other, m)).to_vector<float>();
    const auto n = static_cast<size_t>(std::min(m.size(0), m.size(1)));
    for (size_t i = 0; i < n; ++i)
      for (size_t j = 0; j < n; ++j) EXPECT_NEAR(product[i * n + j], i == j ? 9 : 0, 1e-5);
  }
  expect_error<ShapeError>("orthogonal_", [] { orthogonal_(zeros({3})); });
}

TEST_F(Init, EyeAndDiracPassTheirInputOn) {
  const Tensor matrix = empty({2, 3}, {});
  eye_(matrix);
  EXPECT_EQ(matrix.to_vector<float>(), (std::vector<float>{1, 0, 0, 0, 1, 0}));
  const Tensor kernel = empty({4, 1, 3}, {});
  dirac_(kernel, 2);  // of each group's two outputs the first has an input
  EXPECT_EQ(kernel.to_vector<float>(), (std::vector<float>{0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}));
  EXPECT_THROW(eye_(kernel), ShapeError);
  EXPECT_THROW(dirac_(matrix), ShapeError);
  EXPECT_THROW(dirac_(kernel, 3), Error);
}

TEST_F(Init, KeepsDTypeAndSeed) {
  const Tensor a = zeros({8, 8}, {.dtype = DType::f64});
  kaiming_uniform_(a);
  manual_seed(0);
  const Tensor b = zeros({8, 8}, {.dtype = DType::f64});
  kaiming_uniform_(b);
  EXPECT_EQ(a.to_vector<double>(), b.to_vector<double>());
}

}  // namespace
}  // namespace mica
