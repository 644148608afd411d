// Linear layers and the activations after them; convolutions are in fuse_conv_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/graph/passes/passes.h"
#include "mica/mica.h"
#include "tests/graph/ops_of.h"

namespace mica {
namespace {

using testing::ElementsAre;

using Layer = std::function<Tensors(const Tensor& x, const Tensor& weight, const Tensor& bias)>;

std::vector<std::string> ops_after_fusion(const Layer& layer) {
  const auto spec = [](const Shape& s) {
    return TensorSpec::contiguous(s, DType::f32, Device::null());
  };
  const std::vector<TensorSpec> specs = {spec({6, 5}), spec({4, 5}), spec({4})};
  Captured c =
      capture([&](std::span<const Tensor> in) { return layer(in[0], in[1], in[2]); }, specs);
  fuse_activations(c.graph);
  remove_dead_nodes(c.graph);
  return ops_of(c.graph);
}

TEST(FuseActivations, JoinsALinearLayerAndWhatNobodyElseReads) {
  EXPECT_THAT(ops_after_fusion([](const Tensor& x, const Tensor& w, const Tensor& b) -> Tensors {
                return {relu(linear(x, w, b))};
              }),
              ElementsAre("linear_act"));
  EXPECT_THAT(ops_after_fusion([](const Tensor& x, const Tensor& w, const Tensor&) -> Tensors {
                return {gelu(linear(x, w))};
              }),
              ElementsAre("linear_act"));
  EXPECT_THAT(ops_after_fusion([](const Tensor& x, const Tensor& w, const Tensor& b) -> Tensors {
                const Tensor y = linear(x, w, b);
                return {relu(y), y};
              }),
              ElementsAre("linear", "relu"));
  EXPECT_THAT(ops_after_fusion([](const Tensor& x, const Tensor& w, const Tensor& b) -> Tensors {
                return {sigmoid(linear(x, w, b))};
              }),
              ElementsAre("linear", "sigmoid"));
}

// The gradient of relu reads its result, that of GELU what went in.
TEST(FuseActivations, LeaveGradientsWhatTheyRead) {
  const auto with_gradient = [](Tensor (*f)(const Tensor&)) {
    return [f](const Tensor& x, const Tensor& w, const Tensor& b) -> Tensors {
      const Tensor leaf = w.detach().set_requires_grad();
      return {grad({f(linear(x, leaf, b))}, {leaf}, {ones({6, 4}, {.device = Device::null()})})[0]};
    };
  };
  EXPECT_THAT(ops_after_fusion(with_gradient(relu)), testing::Contains("linear_act"));
  EXPECT_THAT(ops_after_fusion(with_gradient([](const Tensor& t) { return gelu(t); })),
              testing::Contains("linear"));
}

TEST(FuseDropout, ReluGradientGoesIntoTheDropoutsGradient) {
  const TensorSpec spec = TensorSpec::contiguous({6, 8}, DType::f32, Device::null());
  Captured c = capture(
      [](std::span<const Tensor> in) -> Tensors {
        const Tensor leaf = in[0].detach().set_requires_grad();
        return grad({dropout(relu(leaf), 0.5)}, {leaf}, {ones({6, 8}, {.device = Device::null()})});
      },
      {&spec, 1});
  fuse_dropout(c.graph);
  const std::vector<std::string> names = ops_of(c.graph);
  EXPECT_THAT(names, testing::Not(testing::Contains("relu_grad")));
  EXPECT_EQ(std::count(names.begin(), names.end(), "dropout"), 2);
}

TEST(FuseActivations, CompiledAndEagerAgree) {
  manual_seed(3);
  const Tensor w = uniform({33, 65}, -1, 1);
  const Tensor b = uniform({33}, -1, 1);
  const Tensor x = uniform({20, 65}, -1, 1);
  const auto layer = [&](const Tensor& in) { return relu(linear(in, w, b)); };
  auto compiled = compile(layer);
  const auto got = compiled(x).to_vector<float>();
  ASSERT_EQ(compiled.function()->plan()->steps(), 1U);
  const auto want = layer(x).to_vector<float>();
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5) << i;
}

}  // namespace
}  // namespace mica
