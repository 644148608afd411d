#include "mica/nn/conv_bn_act.h"

#include <gtest/gtest.h>

#include "mica/graph/compile.h"
#include "mica/nn/nn.h"
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

}  // namespace
}  // namespace mica
