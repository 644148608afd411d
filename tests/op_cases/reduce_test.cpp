// Gradients at points where differences of the function say nothing: kinks, ties, infinities.
#include <gtest/gtest.h>

#include <cmath>

#include "mica/mica.h"

namespace mica {
namespace {

using Values = std::vector<double>;

Tensor leaf(const Values& values, const Shape& shape) {
  return tensor(values, shape).set_requires_grad();
}
Values gradient(const Tensor& y, const Tensor& x) {
  return grad({y}, {x}, {ones_like(y)})[0].to_vector<double>();
}

TEST(ReductionGradient, EqualExtremesShareEvenly) {
  const Tensor x = leaf({3, 3, 1, 0, 2, 2, 2, -1}, {2, 4});
  EXPECT_EQ(gradient(max(x, {1}), x), (Values{0.5, 0.5, 0, 0, 1.0 / 3, 1.0 / 3, 1.0 / 3, 0}));
  const Tensor z = leaf({3, 1, 1, 4}, {4});
  EXPECT_EQ(gradient(min(z), z), (Values{0, 0.5, 0.5, 0}));
  const Tensor w = leaf({-3, 1, 3, 0}, {4});
  EXPECT_EQ(gradient(norm(w, INFINITY), w), (Values{-0.5, 0, 0.5, 0}));
}

TEST(ReductionGradient, NormOfZerosHasGradientZero) {
  for (const double p : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, double{INFINITY}}) {
    const Tensor x = leaf({0, 0, 0}, {3});
    const Tensor y = norm(x, p);
    EXPECT_EQ(y.item(), 0) << p;
    const Tensor g = grad({y}, {x}, {ones_like(y)}, {.create_graph = true})[0];
    EXPECT_EQ(g.detach().to_vector<double>(), Values(3, 0)) << p;
    if (!g.requires_grad()) continue;
    const Tensor second = grad({sum(g)}, {x}, {scalar(1, {.dtype = DType::f64})})[0];
    if (!second.defined()) continue;
    for (const double v : second.to_vector<double>()) EXPECT_FALSE(std::isnan(v)) << p;
  }
  const Tensor some = leaf({0, 0, -2}, {3});
  EXPECT_EQ(gradient(norm(some), some), (Values{0, 0, -1}));
}

TEST(ReductionGradient, StdOfEqualValuesHasGradientZero) {
  const Tensor x = leaf({2, 2, 2}, {3});
  EXPECT_EQ(gradient(mica::std(x), x), Values(3, 0));
}

TEST(ReductionGradient, LogsumexpOfInfinities) {
  const Tensor x = leaf({-INFINITY, -INFINITY, 1, -INFINITY}, {2, 2});
  EXPECT_EQ(gradient(logsumexp(x, {1}), x), (Values{0, 0, 1, 0}));
}

TEST(ReductionGradient, CumprodPastZero) {
  const Tensor x = leaf({2, 0, 3, 0}, {4});
  // Results 2, 0, 0, 0.
  EXPECT_EQ(gradient(cumprod(x, 0), x), (Values{1, 2 + 2 * 3, 0, 0}));
}

}  // namespace
}  // namespace mica
