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
              ElementsAre("linear_and_act"));
  EXPECT_THAT(ops_after_fusion([](const Tensor& x, const Tensor& w, const Tensor& b) -> Tensors {
                return {sigmoid(linear(x, w, b))};
              }),
              ElementsAre("linear", "sigmoid"));
}

/// What the activation gives, and gradients of all three.
Layer with_gradients(Tensor (*f)(const Tensor&)) {
  return [f](const Tensor& x, const Tensor& w, const Tensor& b) -> Tensors {
    Tensors leaves;
    for (const Tensor& t : {x, w, b}) leaves.push_back(t.detach().set_requires_grad());
    const Tensor hidden = f(linear(leaves[0], leaves[1], leaves[2]));
    Tensors results = grad({hidden}, leaves, {ones(hidden.shape(), {.device = x.device()})});
    results.push_back(hidden.detach());
    return results;
  };
}

Tensor erf_gelu(const Tensor& t) { return gelu(t); }

// The gradient of relu reads its result, that of GELU what went in.
TEST(FuseActivations, LeaveGradientsWhatTheyRead) {
  EXPECT_THAT(ops_after_fusion(with_gradients(relu)), testing::Contains("linear_act"));
  const std::vector<std::string> names = ops_after_fusion(with_gradients(erf_gelu));
  EXPECT_THAT(names, testing::Contains("linear_and_act"));
  EXPECT_THAT(names, testing::Not(testing::Contains("gelu")));
}

/// Two layers: the gradient of the first's activation is that of a product.
Layer two_layers(Tensor (*f)(const Tensor&)) {
  return [f](const Tensor& x, const Tensor& w, const Tensor& b) -> Tensors {
    const Tensor leaf = w.detach().set_requires_grad();
    const Tensor hidden = f(linear(x, leaf, b));
    const Tensor out = linear(hidden, transpose(w, 0, 1));
    return grad({out}, {leaf}, {ones(out.shape(), {.device = x.device()})});
  };
}

TEST(FuseActivations, JoinsAProductAndTheGradientThatReadsIt) {
  for (const auto f : {relu, erf_gelu}) {
    const std::vector<std::string> names = ops_after_fusion(two_layers(f));
    EXPECT_THAT(names, testing::Contains("matmul_act_grad"));
    EXPECT_THAT(names, testing::Not(testing::Contains("relu_grad")));
    EXPECT_THAT(names, testing::Not(testing::Contains("gelu_grad")));
  }
  // Somebody else reads the product.
  const auto shared = [](const Tensor& x, const Tensor& w, const Tensor&) -> Tensors {
    const Tensor leaf = x.detach().set_requires_grad();
    const Tensor hidden = relu(leaf);
    const Tensor dy = matmul(ones({6, 4}, {.device = x.device()}), w);
    return {grad({hidden}, {leaf}, {dy})[0], dy};
  };
  EXPECT_THAT(ops_after_fusion(shared), testing::Contains("relu_grad"));
}

TEST(FuseActivations, TheValuesStay) {
  manual_seed(5);
  const Tensor arguments[] = {uniform({20, 65}, -1, 1), uniform({33, 65}, -1, 1),
                              uniform({33}, -1, 1)};
  const char* const ops[] = {"linear_and_act", "matmul_act_grad"};
  for (const auto f : {relu, erf_gelu}) {
    for (const Layer& layer : {with_gradients(f), two_layers(f)}) {
      const auto body = [&](std::span<const Tensor> in) { return layer(in[0], in[1], in[2]); };
      const Tensors eager = body(arguments);
      for (const char* op : ops) force_kernel(op, "composed");
      CompiledFunction compiled(body);
      const Tensors results = compiled(arguments);
      for (const char* op : ops) force_kernel(op, "");
      EXPECT_THAT(
          compiled.plan()->kernels(),
          testing::Contains(testing::AnyOf("linear_and_act: composed", "matmul_act_grad: composed"))
              .Times(testing::Ge(f == relu ? 0U : 1U)));
      ASSERT_EQ(results.size(), eager.size());
      for (size_t i = 0; i < eager.size(); ++i)
        EXPECT_THAT(results[i].to_vector<float>(),
                    testing::Pointwise(testing::FloatNear(1e-4F), eager[i].to_vector<float>()))
            << i;
    }
  }
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
