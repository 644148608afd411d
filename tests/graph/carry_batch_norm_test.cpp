// Batch norm with what surrounds it: which calls become one, on the null device, and that the
// values stay, on the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/graph/passes/passes.h"
#include "mica/graph/plan.h"
#include "mica/mica.h"
#include "tests/graph/ops_of.h"

namespace mica {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

using Body = std::function<Tensors(std::span<const Tensor>)>;

constexpr int64_t kChannels = 6;

/// What a batch norm has.
struct Norm {
  explicit Norm(Device device, bool trained = false)
      : weight(uniform({kChannels}, 0.5, 1.5, {.device = device}).set_requires_grad(trained)),
        bias(uniform({kChannels}, -1, 1, {.device = device}).set_requires_grad(trained)),
        mean(zeros({kChannels}, {.device = device})),
        var(ones({kChannels}, {.device = device})) {}

  Tensor operator()(const Tensor& x, bool training = true) const {
    return batch_norm(x, weight, bias, mean, var, {.training = training});
  }
  Tensor weight, bias, mean, var;
};

const Node& node_of(const Graph& graph, std::string_view op) {
  return *std::find_if(graph.nodes.begin(), graph.nodes.end(),
                       [&](const Node& n) { return name_of(n) == op; });
}

Graph fused(size_t inputs, const Body& body) {
  const std::vector<TensorSpec> specs(
      inputs, TensorSpec::contiguous({4, kChannels, 5, 5}, DType::f32, Device::null()));
  Graph graph = capture(body, specs).graph;
  join_patterns(graph);
  carry_programs(graph);
  return graph;
}

TEST(CarryBatchNorm, TakesTheReluAfterIt) {
  const Norm norm(Device::null());
  const Graph g =
      fused(1, [&](std::span<const Tensor> in) -> Tensors { return {relu(norm(in[0]))}; });
  ASSERT_THAT(ops_of(g), ElementsAre("batch_norm+relu"));
  EXPECT_EQ(g.nodes[0].out[0], g.outputs[0]);
  EXPECT_EQ(g.nodes[0].out.size(), 5U);  // the running statistics have new versions
  for (const ValueId id : g.nodes[0].out) EXPECT_EQ(g[id].node, 0);
  EXPECT_TRUE(g.has_effect(g.nodes[0]));
}

TEST(CarryBatchNorm, TakesASumAndItsRelu) {
  const Norm norm(Device::null());
  const Body body = [&](std::span<const Tensor> in) -> Tensors {
    const Tensor y = norm(in[0]);
    return {relu(add(sigmoid(in[1]), y))};
  };
  const Graph g = fused(2, body);
  ASSERT_THAT(ops_of(g), ElementsAre("sigmoid", "batch_norm+add+relu"));
  EXPECT_EQ(g.nodes[1].in[5], g.nodes[0].out[0]);
  const Graph without = fused(
      2, [&](std::span<const Tensor> in) -> Tensors { return {exp(add(norm(in[0]), in[1]))}; });
  ASSERT_THAT(ops_of(without), ElementsAre("batch_norm+add+exp"));
}

TEST(CarryBatchNorm, OfTwoSummedNormsTheLaterOneAdds) {
  const Norm a(Device::null());
  const Norm b(Device::null());
  const Graph g = fused(
      2, [&](std::span<const Tensor> in) -> Tensors { return {relu(add(a(in[0]), b(in[1])))}; });
  ASSERT_THAT(ops_of(g), ElementsAre("batch_norm", "batch_norm+add+relu"));
  EXPECT_EQ(g.nodes[1].in[5], g.nodes[0].out[0]);
}

TEST(CarryBatchNorm, KeepsWhatIsNeededElsewhere) {
  const Norm norm(Device::null());
  EXPECT_THAT(ops_of(fused(1,
                           [&](std::span<const Tensor> in) -> Tensors {
                             const Tensor y = norm(in[0]);
                             return {relu(y), y};
                           })),
              ElementsAre("batch_norm(kept)+relu"));
}

TEST(CarryBatchNorm, DoesNotRunLateWhereItsStatisticsAreRead) {
  const Norm norm(Device::null());
  const Body body = [&](std::span<const Tensor> in) -> Tensors {
    const Tensor y = norm(in[0]);
    return {add(y, mul(in[1], sum(norm.mean)))};
  };
  EXPECT_THAT(ops_of(fused(2, body)), ElementsAre("batch_norm", "sum", "mul", "add"));
  // Nor where something it reads has been written to: then relu runs early.
  EXPECT_THAT(ops_of(fused(2,
                           [&](std::span<const Tensor> in) -> Tensors {
                             const Tensor y = norm(in[0]);
                             fill_(norm.bias, 1);
                             return {relu(y)};
                           })),
              ElementsAre("batch_norm+relu", "full", "copy_into"));
  EXPECT_THAT(ops_of(fused(2,
                           [&](std::span<const Tensor> in) -> Tensors {
                             const Tensor y = norm(in[0]);
                             fill_(norm.bias, 1);
                             return {add(y, exp(in[1]))};
                           })),
              ElementsAre("batch_norm", "full", "copy_into", "exp", "add"));
}

TEST(CarryBatchNorm, TheGradientComputesTheSignAgain) {
  const Norm norm(Device::null(), true);
  const Tensor w =
      zeros({kChannels, kChannels, 3, 3}, {.device = Device::null()}).set_requires_grad();
  const Graph g = fused(1, [&](std::span<const Tensor> in) -> Tensors {
    mean(square(relu(norm(conv2d(in[0], w, {}))))).backward();
    return {};
  });
  EXPECT_THAT(ops_of(g), Not(Contains("relu_grad")));
  EXPECT_THAT(ops_of(g), Not(Contains("batch_norm_grad")));
  const Node& grad = node_of(g, "sub+mul+mul+add+relu+relu_grad+batch_norm_grad");
  const Node& forward = node_of(g, "batch_norm+relu");
  EXPECT_THAT(grad.in, Not(Contains(forward.out[0])));
  EXPECT_EQ(grad.in.back(), forward.in[2]);
  EXPECT_EQ(grad.out.size(), 3U);
}

TEST(CarryBatchNorm, TheGradientOfASumTakesTheSignFromTheResult) {
  const Norm norm(Device::null(), true);
  const Norm other(Device::null(), true);
  const Tensor w =
      zeros({kChannels, kChannels, 3, 3}, {.device = Device::null()}).set_requires_grad();
  const Graph g = fused(1, [&](std::span<const Tensor> in) -> Tensors {
    const Tensor x = conv2d(in[0], w, {});
    mean(square(relu(add(norm(x), other(x))))).backward();
    return {};
  });
  EXPECT_THAT(ops_of(g), Not(Contains("relu_grad")));
  const Node& grad = node_of(g, "relu_grad(kept)+batch_norm_grad");
  EXPECT_EQ(grad.in[5], node_of(g, "batch_norm+add+relu").out[0]);
  ASSERT_EQ(grad.out.size(), 4U);
  EXPECT_EQ(node_of(g, "batch_norm_grad").in[0], grad.out[3]);
}

/// Two blocks of a residual network, trained.
std::vector<std::vector<float>> train(const Tensor& x, bool compiled, bool evaluate) {
  manual_seed(7);
  std::vector<Norm> norms;
  Tensors weights;
  for (int i = 0; i < 4; ++i) {
    norms.emplace_back(Device::cpu(), true);
    weights.push_back(normal({kChannels, kChannels, 3, 3}, 0, 0.2).set_requires_grad());
  }
  Tensors parameters = weights;
  for (const Norm& n : norms) parameters.insert(parameters.end(), {n.weight, n.bias});
  const Tensor lr = scalar(0.05);
  const auto conv = [&](const Tensor& t, size_t i) {
    return conv2d(t, weights[i], {}, {.padding = {1, 1}});
  };
  const Body step = [&](std::span<const Tensor> in) -> Tensors {
    const bool training = !evaluate;
    const Tensor first = relu(norms[0](conv(in[0], 0), training));
    const Tensor second = relu(add(norms[1](conv(first, 1), training), first));
    const Tensor third = norms[2](conv(second, 2), training);
    const Tensor y = relu(add(third, norms[3](conv(second, 3), training)));
    const Tensor loss = mean(square(sub(y, in[0])));
    loss.backward();
    const NoGrad guard;
    Tensors gradients;
    for (const Tensor& p : parameters) gradients.push_back(p.grad());
    sgd_update(lr, parameters, gradients, {}, {});
    for (const Tensor& p : parameters) p.set_grad({});
    return {loss};
  };
  CompiledFunction function(step);
  std::vector<std::vector<float>> seen;
  for (int i = 0; i < 4; ++i)
    seen.push_back((compiled ? function({&x, 1}) : step({&x, 1}))[0].to_vector<float>());
  if (compiled) {
    EXPECT_THAT(function.plan()->kernels(), Contains("anchored: batch_norm_vectorized").Times(3));
    EXPECT_THAT(function.plan()->kernels(),
                Contains("anchored: batch_norm_grad_vectorized").Times(3));
    EXPECT_THAT(function.plan()->kernels(), Not(Contains(testing::HasSubstr("relu"))));
  }
  for (const Tensor& p : parameters) seen.push_back(p.to_vector<float>());
  for (const Norm& n : norms)
    seen.insert(seen.end(), {n.mean.to_vector<float>(), n.var.to_vector<float>()});
  return seen;
}

TEST(CarryBatchNorm, ATrainingStepComputesTheSame) {
  manual_seed(8);
  const Tensor x = uniform({4, kChannels, 9, 8}, -1, 1);
  for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last})
    for (const bool evaluate : {false, true}) {
      const Tensor in = contiguous(x, format);
      const auto eager = train(in, false, evaluate);
      const auto compiled = train(in, true, evaluate);
      ASSERT_EQ(eager.size(), compiled.size());
      for (size_t i = 0; i < eager.size(); ++i)
        EXPECT_THAT(compiled[i], testing::Pointwise(testing::FloatNear(2e-5F), eager[i])) << i;
    }
}

TEST(CarryBatchNorm, IsOffInDeterministicMode) {
  const Norm norm(Device::cpu());
  set_deterministic(true);
  auto f = compile([&](const Tensor& x) { return relu(norm(x)); });
  f(ones({4, kChannels, 5, 5}));
  EXPECT_THAT(f.function()->plan()->kernels(),
              ElementsAre("batch_norm: vectorized", testing::StartsWith("relu: ")));
  set_deterministic(false);
}

}  // namespace
}  // namespace mica
