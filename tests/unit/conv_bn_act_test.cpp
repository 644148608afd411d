#include "mica/nn/conv_bn_act.h"

#include <gtest/gtest.h>

#include "mica/autograd/gradcheck.h"
#include "mica/graph/compile.h"
#include "mica/nn/nn.h"
#include "mica/ops/batch_norm/batch_norm_relu.h"
#include "mica/ops/ops.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

Tensor drawn(const Shape& shape, uint64_t seed) {
  manual_seed(seed);
  return cast(normal(shape), DType::f64).set_requires_grad();
}

/// Output and all gradients.
template <class F>
Tensors results(const F& f, const Tensor& x, const Tensor& residual, const Tensors& parameters) {
  const Tensor y = f(x, residual);
  Tensors of = {x, residual};
  of.insert(of.end(), parameters.begin(), parameters.end());
  Tensors all = grad({sum(y * drawn(y.shape(), 9).detach())}, of);
  all.push_back(y.detach());
  return all;
}

TEST(ConvBnAct2d, IsTheThreeLayersInTrainingAndEvaluation) {
  const nn::Conv2d conv({.in = 4, .out = 6, .kernel = 3, .stride = 2, .padding = 1, .groups = 2});
  const nn::BatchNorm2d bn(6);
  const nn::ConvBnAct2d fused({.in = 4,
                               .out = 6,
                               .kernel = 3,
                               .stride = 2,
                               .padding = 1,
                               .groups = 2,
                               .bias = true,
                               .activation = nn::SiLU()});
  fused.at("conv").load_state_dict(conv.state_dict());
  for (const nn::Module& module : {nn::Module(conv), nn::Module(bn), nn::Module(fused)})
    module.to(DType::f64);
  const Tensor x = drawn({3, 4, 9, 8}, 1);
  const Tensor residual = drawn({3, 6, 5, 4}, 2);
  Tensors parameters = conv.parameters();
  for (const Tensor& p : bn.parameters()) parameters.push_back(p);
  const auto three = [&](const Tensor& a, const Tensor& b) { return silu(bn(conv(a)) + b); };
  const auto one = [&](const Tensor& a, const Tensor& b) { return fused(a, b); };
  for (const bool training : {true, false}) {
    bn.train(training);
    fused.train(training);
    auto compiled = compile(one);
    const Tensors expected = results(three, x, residual, parameters);
    const Tensors eager = results(one, x, residual, fused.parameters());
    const Tensors replayed =
        results([&](const Tensor& a, const Tensor& b) { return compiled(a, b); }, x, residual,
                fused.parameters());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(max(abs(expected[i] - eager[i])).item(), 0) << i;
      EXPECT_LT(max(abs(expected[i] - replayed[i])).item(), 1e-11) << i;
    }
    three(x, residual);  // the fused layer has seen the batch once more
    for (const char* name : {"running_mean", "running_var", "num_batches_tracked"})
      EXPECT_LT(max(abs(cast(bn.state_dict().at(name), DType::f64) -
                        cast(fused.at("bn").state_dict().at(name), DType::f64)))
                    .item(),
                1e-12)
          << name;
  }
}

TEST(ConvBnAct2d, SharesTheLayersItIsMadeOf) {
  const nn::Conv2d conv({.in = 2, .out = 3, .kernel = 1});
  const nn::BatchNorm2d bn(3);
  const nn::ConvBnAct2d fused(conv, bn);
  EXPECT_EQ(fused.at("conv").impl(), conv.impl());
  EXPECT_EQ(fused.at("bn").impl(), bn.impl());
  EXPECT_EQ(fused->describe(), "ConvBnAct2d(Conv2d(in=2, out=3, kernel=1), ReLU())");
  expect_error<ShapeError>("the convolution has 3 channels, the norm 4",
                           [&] { nn::ConvBnAct2d(conv, nn::BatchNorm2d(4)); });
  expect_error<ShapeError>("the residual must have the result's shape",
                           [&] { fused(ones({2, 2, 4, 4}), ones({2, 3, 2, 2})); });
}

TEST(BatchNormRelu, IsTheTwoCalls) {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    const DType own = dtype == DType::f64 ? dtype : DType::f32;  // of weights and statistics
    const auto of = [&](const Shape& shape, uint64_t seed, DType as) {
      return drawn(shape, seed).detach().to(as).set_requires_grad();
    };
    const Tensor x = of({3, 4, 5, 2}, 1, dtype);
    const Tensor weight = of({4}, 2, own);
    const Tensor bias = of({4}, 3, own);
    const Tensor g = of({3, 4, 5, 2}, 4, dtype).detach();
    Tensors all[2];
    for (const bool one : {false, true}) {
      const Tensor mean = zeros({4}, {.dtype = own});
      const Tensor variance = ones({4}, {.dtype = own});
      const BatchNormParams params{.eps = 1e-3, .momentum = 0.3};
      const Tensor y = one ? batch_norm_relu(x, weight, bias, mean, variance, params)
                           : relu(batch_norm(x, weight, bias, mean, variance, params));
      all[one] = grad({y}, {x, weight, bias}, {g});
      all[one].insert(all[one].end(), {y.detach(), mean, variance});
    }
    const double tolerance = dtype == DType::f64    ? 1e-12
                             : dtype == DType::f32  ? 1e-5
                             : dtype == DType::bf16 ? 1e-2
                                                    : 2e-3;
    for (size_t i = 0; i < all[0].size(); ++i)
      EXPECT_TRUE(all[0][i].allclose(all[1][i], tolerance, tolerance)) << name_of(dtype) << i;
  }
}

TEST(BatchNormRelu, CanBeDifferentiatedTwice) {
  const Tensor x = drawn({3, 2, 4, 1}, 1);
  const Tensor weight = drawn({2}, 2);
  const Tensor bias = drawn({2}, 3);
  const auto f = [](const Tensors& in) {
    return Tensors{batch_norm_relu(in[0], in[1], in[2], {}, {}, {})};
  };
  EXPECT_TRUE(gradcheck(f, {x, weight, bias}).ok) << "first";
  EXPECT_TRUE(gradgradcheck(f, {x, weight, bias}).ok) << "second";
}

}  // namespace
}  // namespace mica
