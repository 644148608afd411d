// Linear layers and the elementwise calls after them; convolutions are in fuse_conv_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/graph/passes/passes.h"
#include "mica/graph/plan.h"
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
  carry_programs(c.graph);
  remove_dead_nodes(c.graph);
  return ops_of(c.graph);
}

TEST(CarryPrograms, JoinsALinearLayerAndWhatNobodyElseReads) {
  EXPECT_THAT(ops_after_fusion([](const Tensor& x, const Tensor& w, const Tensor& b) -> Tensors {
                return {relu(linear(x, w, b))};
              }),
              ElementsAre("linear+relu"));
  EXPECT_THAT(ops_after_fusion([](const Tensor& x, const Tensor& w, const Tensor&) -> Tensors {
                return {gelu(linear(x, w))};
              }),
              ElementsAre("linear+gelu"));
  EXPECT_THAT(ops_after_fusion([](const Tensor& x, const Tensor& w, const Tensor& b) -> Tensors {
                const Tensor y = linear(x, w, b);
                return {relu(y), y};
              }),
              ElementsAre("linear(kept)+relu"));
}

TEST(CarryPrograms, ANormCarriesWhatFollowsOrWhatMakesItsOperand) {
  // What it carries after it, as casts of autocast are, may stand at another place than it did.
  EXPECT_THAT(ops_after_fusion([](const Tensor& x, const Tensor&, const Tensor&) -> Tensors {
                return {relu(layer_norm(neg(x), {5}, {}, {}))};
              }),
              ElementsAre("neg", "layer_norm+relu"));
}

TEST(CarryPrograms, ASumOfAProductGoesWithThatAndNotWithTheNormAfterIt) {
  EXPECT_THAT(ops_after_fusion([](const Tensor& x, const Tensor& w, const Tensor& b) -> Tensors {
                const Tensor more = exp(linear(x, w, b));
                const Tensor sum = add(more, linear(x, w, b * 2));
                return {layer_norm(sum, {4}, {}, {}), sum};
              }),
              testing::Contains("linear+add"));
}

TEST(CarryPrograms, TakesAChainAndWhatElseItReads) {
  EXPECT_THAT(ops_after_fusion([](const Tensor& x, const Tensor& w, const Tensor& b) -> Tensors {
                return {silu(add(mul(linear(x, w, b), 0.5), b))};
              }),
              ElementsAre("linear+mul+add+silu"));
  // The result is read twice inside.
  EXPECT_THAT(ops_after_fusion([](const Tensor& x, const Tensor& w, const Tensor& b) -> Tensors {
                const Tensor y = linear(x, w, b);
                return {mul(y, sigmoid(y))};
              }),
              ElementsAre("linear+sigmoid+mul"));
  // Up to what somebody else reads.
  EXPECT_THAT(ops_after_fusion([](const Tensor& x, const Tensor& w, const Tensor& b) -> Tensors {
                const Tensor hidden = tanh(linear(x, w, b));
                return {hidden, neg(hidden)};
              }),
              ElementsAre("linear+tanh", "neg"));
  // What it would read is made of its own result.
  EXPECT_THAT(ops_after_fusion([](const Tensor& x, const Tensor& w, const Tensor& b) -> Tensors {
                const Tensor y = linear(x, w, b);
                const Tensor hidden = exp(y);
                return {mul(hidden, softmax(y, -1))};
              }),
              ElementsAre("linear(kept)+exp", "softmax", "mul"));
  // What it reads is written to in between.
  EXPECT_THAT(ops_after_fusion([](const Tensor& x, const Tensor& w, const Tensor& b) -> Tensors {
                const Tensor y = linear(x, w, b);
                fill_(w, 0);
                return {add(y, exp(b))};
              }),
              testing::Contains("linear"));
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
TEST(CarryPrograms, LeaveGradientsWhatTheyRead) {
  EXPECT_THAT(ops_after_fusion(with_gradients(relu)), testing::Contains("linear+relu"));
  const std::vector<std::string> names = ops_after_fusion(with_gradients(erf_gelu));
  EXPECT_THAT(names, testing::Contains("linear(kept)+gelu"));
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

TEST(CarryPrograms, JoinsAProductAndTheGradientThatReadsIt) {
  for (const auto f : {relu, erf_gelu, silu}) {
    const std::vector<std::string> names = ops_after_fusion(two_layers(f));
    const char* const gradient = f == relu   ? "matmul+relu_grad"
                                 : f == silu ? "matmul+silu_grad"
                                             : "matmul+gelu_grad";
    EXPECT_THAT(names, testing::Contains(gradient));
    EXPECT_THAT(names, testing::Not(testing::Contains(testing::EndsWith("_grad")).Times(2)));
  }
  // Somebody else reads the product, which is kept.
  const auto shared = [](const Tensor& x, const Tensor& w, const Tensor&) -> Tensors {
    const Tensor leaf = x.detach().set_requires_grad();
    const Tensor hidden = relu(leaf);
    const Tensor dy = matmul(ones({6, 4}, {.device = x.device()}), w);
    return {grad({hidden}, {leaf}, {dy})[0], dy};
  };
  EXPECT_THAT(ops_after_fusion(shared), testing::Contains("matmul(kept)+relu_grad"));
}

TEST(CarryPrograms, TheValuesStay) {
  manual_seed(5);
  const Tensor arguments[] = {uniform({20, 65}, -1, 1), uniform({33, 65}, -1, 1),
                              uniform({33}, -1, 1)};
  for (const auto f : {relu, erf_gelu, silu}) {
    for (const Layer& layer : {with_gradients(f), two_layers(f)}) {
      const auto body = [&](std::span<const Tensor> in) { return layer(in[0], in[1], in[2]); };
      const Tensors eager = body(arguments);
      for (const char* kernel : {"composed", "product_blocked", ""}) {
        force_kernel("anchored", kernel);
        CompiledFunction compiled(body);
        const Tensors results = compiled(arguments);
        force_kernel("anchored", "");
        EXPECT_THAT(compiled.plan()->kernels(),
                    testing::Contains(testing::StartsWith(std::string("anchored: ") + kernel)));
        ASSERT_EQ(results.size(), eager.size());
        for (size_t i = 0; i < eager.size(); ++i)
          EXPECT_THAT(results[i].to_vector<float>(),
                      testing::Pointwise(testing::FloatNear(1e-4F), eager[i].to_vector<float>()))
              << i << " by " << kernel;
      }
    }
  }
}

// As few steps as with relu, whatever comes after a layer.
TEST(CarryPrograms, EveryActivationIsOneStep) {
  manual_seed(4);
  const Tensor w = uniform({33, 65}, -1, 1);
  const Tensor b = uniform({33}, -1, 1);
  const Tensor x = uniform({20, 65}, -1, 1);
  const auto tanh_gelu = [](const Tensor& t) { return gelu(t, GeluForm::tanh); };
  for (const std::function<Tensor(const Tensor&)>& f :
       {std::function<Tensor(const Tensor&)>(silu),
        {tanh_gelu},
        {hardswish},
        {mish},
        {[](const Tensor& t) { return mul(relu(sub(t, 0.5)), 2.0); }}}) {
    auto compiled = compile([&](const Tensor& in) { return f(linear(in, w, b)); });
    const std::vector<float> got = compiled(x).to_vector<float>();
    EXPECT_EQ(compiled.function()->plan()->steps(), 1U);
    EXPECT_THAT(
        got, testing::Pointwise(testing::FloatNear(1e-4F), f(linear(x, w, b)).to_vector<float>()));
  }
}

TEST(JoinPatterns, ReluGradientGoesIntoTheDropoutsGradient) {
  const TensorSpec spec = TensorSpec::contiguous({6, 8}, DType::f32, Device::null());
  Captured c = capture(
      [](std::span<const Tensor> in) -> Tensors {
        const Tensor leaf = in[0].detach().set_requires_grad();
        return grad({dropout(relu(leaf), 0.5)}, {leaf}, {ones({6, 8}, {.device = Device::null()})});
      },
      {&spec, 1});
  join_patterns(c.graph);
  const std::vector<std::string> names = ops_of(c.graph);
  EXPECT_THAT(names, testing::Not(testing::Contains("relu_grad")));
  EXPECT_EQ(std::count(names.begin(), names.end(), "dropout"), 2);
}

TEST(CarryPrograms, CompiledAndEagerAgree) {
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
