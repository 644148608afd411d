// Convolutions with what follows them: which calls become one, on the null device; and that the
// values stay, on the CPU with the kernels that are made of the single ops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

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

const std::vector<Shape> kShapes = {{2, 3, 8, 8}, {4, 3, 3, 3}, {4}};

Graph captured(const Body& body, const std::vector<Shape>& shapes = kShapes) {
  std::vector<TensorSpec> specs;
  specs.reserve(shapes.size());
  for (const Shape& s : shapes)
    specs.push_back(TensorSpec::contiguous(s, DType::f32, Device::null()));
  return capture(body, specs).graph;
}

Graph joined(const Body& body, const std::vector<Shape>& shapes = kShapes) {
  Graph graph = captured(body, shapes);
  for (const auto pass : {join_patterns, carry_programs}) pass(graph);
  remove_dead_nodes(graph);
  return graph;
}

/// The result and the gradients of all inputs of a function of them.
Body with_gradients(const std::function<Tensor(const Tensors&)>& f) {
  return [f](std::span<const Tensor> in) -> Tensors {
    Tensors leaves;
    for (const Tensor& t : in) leaves.push_back(t.detach().set_requires_grad());
    const Tensor y = f(leaves);
    Tensors results = {y.detach()};
    for (const Tensor& g : grad({y}, leaves, {mul(y.detach(), 0.5)})) results.push_back(g);
    return results;
  };
}

/// Lets passes make the ops though their only kernels are the composed ones.
class ComposedForced {
 public:
  ComposedForced() { force("composed"); }
  ~ComposedForced() { force(""); }
  ComposedForced(const ComposedForced&) = delete;
  ComposedForced& operator=(const ComposedForced&) = delete;

 private:
  static void force(const char* kernel) {
    for (const char* op : {"conv2d_pool", "conv2d_pool_dgrad", "conv2d_pool_wgrad", "anchored"})
      force_kernel(op, kernel);
  }
};

/// Runs a function eagerly and compiled, with the joined ops; gives the plan's calls.
std::vector<std::string> expect_same(const Tensors& arguments, const Body& body) {
  const ComposedForced forced;
  const Tensors eager = body(arguments);
  CompiledFunction compiled(body);
  for (int run = 0; run < 2; ++run) {
    const Tensors results = compiled(arguments);
    EXPECT_EQ(results.size(), eager.size());
    for (size_t i = 0; i < eager.size(); ++i) {
      EXPECT_EQ(results[i].shape(), eager[i].shape()) << i;
      EXPECT_EQ(results[i].strides(), eager[i].strides()) << i;
      const std::vector<float> want = eager[i].to_vector<float>();
      const std::vector<float> got = results[i].to_vector<float>();
      for (size_t k = 0; k < want.size(); ++k)
        EXPECT_NEAR(got[k], want[k], 1e-5 + 1e-5 * std::abs(want[k])) << i << ", " << k;
    }
  }
  return compiled.plan()->kernels();
}

Tensors values(const std::vector<Shape>& shapes = kShapes) {
  manual_seed(7);
  Tensors all;
  for (const Shape& s : shapes) all.push_back(uniform(s, -1, 1));
  return all;
}

TEST(PooledGradients, ReluIsMaskedWhereThereAreFewer) {
  const Body body = with_gradients([](const Tensors& in) { return max_pool2d(relu(in[0])); });
  Graph g = captured(body, {{2, 3, 8, 8}});
  ASSERT_THAT(ops_of(g), ElementsAre("relu", "max_pool2d", "mul", "max_pool2d_grad", "relu_grad"));
  join_patterns(g);
  ASSERT_THAT(ops_of(g), ElementsAre("relu", "max_pool2d", "mul", "relu_grad", "max_pool2d_grad"));
  EXPECT_EQ(g[g.nodes[3].out[0]].spec.shape, (Shape{2, 3, 4, 4}));
  EXPECT_EQ(g[g.outputs[1]].spec.shape, (Shape{2, 3, 8, 8}));
  EXPECT_EQ(g[g.outputs[1]].node, 4);
}

/// Compiled and eager results, bit by bit.
void expect_same_bits(const Tensors& arguments, const Body& body) {
  const Tensors eager = body(arguments);
  CompiledFunction compiled(body);
  const Tensors results = compiled(arguments);
  for (size_t i = 0; i < eager.size(); ++i) {
    const std::vector<float> want = eager[i].to_vector<float>();
    const std::vector<float> got = results[i].to_vector<float>();
    ASSERT_EQ(got.size(), want.size());
    for (size_t k = 0; k < want.size(); ++k) {
      const bool same = std::isnan(want[k]) ? std::isnan(got[k]) : got[k] == want[k];
      EXPECT_TRUE(same && std::signbit(got[k]) == std::signbit(want[k])) << i << ", " << k;
    }
  }
}

TEST(PooledGradients, HaveTheSameBits) {
  Tensor x = uniform({2, 3, 9, 9}, -1, 1);
  for (const MaxPool2dParams& p :
       {MaxPool2dParams{}, MaxPool2dParams{.kernel = 3, .stride = 2, .padding = 1},
        MaxPool2dParams{.kernel = 2, .dilation = 3}}) {
    for (const auto f : {relu, tanh, sigmoid}) {
      const Body body = with_gradients([&](const Tensors& in) { return max_pool2d(f(in[0]), p); });
      expect_same_bits({x}, body);
      expect_same_bits({contiguous(x, MemoryFormat::channels_last)}, body);
    }
  }
  std::vector<float> hostile = x.to_vector<float>();
  for (size_t i = 0; i < hostile.size(); i += 7) hostile[i] = -0.0F;
  for (size_t i = 3; i < hostile.size(); i += 11)
    hostile[i] = std::numeric_limits<float>::infinity();
  for (size_t i = 5; i < hostile.size(); i += 13)
    hostile[i] = std::numeric_limits<float>::quiet_NaN();
  x = tensor(hostile, {2, 3, 9, 9});
  expect_same_bits({x}, with_gradients([](const Tensors& in) {
                     return max_pool2d(relu(in[0]), {.kernel = 3, .stride = 2});
                   }));
}

TEST(PooledGradients, SumsOfOverlappingWindowsRoundDifferently) {
  const auto ops = [](const MaxPool2dParams& p) {
    Graph g =
        captured(with_gradients([&](const Tensors& in) { return max_pool2d(tanh(in[0]), p); }),
                 {{1, 1, 9, 9}});
    join_patterns(g);
    return ops_of(g);
  };
  EXPECT_EQ(ops({}).back(), "max_pool2d_grad");
  EXPECT_EQ(ops({.kernel = 2, .stride = 3}).back(), "max_pool2d_grad");
  EXPECT_EQ(ops({.kernel = 3, .stride = 2}).back(), "tanh_grad");
  EXPECT_EQ(ops({.kernel = 2, .stride = 2, .dilation = 2}).back(), "tanh_grad");
}

TEST(PooledGradients, StayWhereTheyMust) {
  const std::vector<Shape> shapes = {{1, 2, 4, 4}, {1, 2, 2, 2}};
  const auto unchanged = [&](const Body& body) {
    Graph g = captured(body, shapes);
    const std::vector<std::string> before = ops_of(g);
    join_patterns(g);
    return ops_of(g) == before;
  };
  const auto pool = [](const Tensor& x) {
    const Outputs both = dispatch(find_op("max_pool2d"), MaxPool2dParams{}, {x});
    return std::pair(both[0], both[1]);
  };
  const MaxPool2dGradParams p{{}, {1, 2, 4, 4}};
  // The gradient before the mask is a result.
  EXPECT_TRUE(unchanged([&](std::span<const Tensor> in) -> Tensors {
    const auto [y, positions] = pool(in[0]);
    const Tensor dx = max_pool2d_grad(in[1], positions, p);
    return {dx, relu_grad(dx, in[0])};
  }));
  // The mask is not what was pooled.
  EXPECT_TRUE(unchanged([&](std::span<const Tensor> in) -> Tensors {
    const auto [y, positions] = pool(in[0]);
    return {relu_grad(max_pool2d_grad(in[1], positions, p), neg(in[0]))};
  }));
  // The pooled values are written over.
  EXPECT_TRUE(unchanged([&](std::span<const Tensor> in) -> Tensors {
    const auto [y, positions] = pool(in[0]);
    fill_(y, 0);
    return {relu_grad(max_pool2d_grad(in[1], positions, p), in[0])};
  }));
  // The positions are written over before the last node.
  EXPECT_TRUE(unchanged([&](std::span<const Tensor> in) -> Tensors {
    const auto [y, positions] = pool(in[0]);
    const Tensor dx = max_pool2d_grad(in[1], positions, p);
    fill_(positions, 0);
    return {relu_grad(dx, in[0])};
  }));
}

TEST(PooledGradients, LaterWritesWait) {
  Graph g = captured(
      [&](std::span<const Tensor> in) -> Tensors {
        const Outputs both = dispatch(find_op("max_pool2d"), MaxPool2dParams{}, {in[0]});
        const Tensor dx = max_pool2d_grad(in[1], both[1], {{}, {1, 2, 4, 4}});
        const Tensor masked = relu_grad(dx, in[0]);
        fill_(both[0], 0);
        fill_(both[1], 0);
        return {masked, both[0], both[1]};
      },
      {{1, 2, 4, 4}, {1, 2, 2, 2}});
  join_patterns(g);
  ASSERT_EQ(g.nodes[1].op->name, std::string("relu_grad"));
  ASSERT_EQ(g.nodes[2].op->name, std::string("max_pool2d_grad"));
}

TEST(JoinConvPool, ForwardIsOneNode) {
  const auto f = [](bool with_relu) {
    return [=](std::span<const Tensor> in) -> Tensors {
      const Tensor y = conv2d(in[0], in[1], in[2], {.padding = 1});
      return {max_pool2d(with_relu ? relu(y) : y, {.kernel = {2, 4}})};
    };
  };
  for (const bool with_relu : {false, true}) {
    const Graph g = joined(f(with_relu));
    ASSERT_THAT(ops_of(g), ElementsAre("conv2d_pool"));
    const auto& p = g.nodes[0].params.as<Conv2dPoolParams>();
    EXPECT_EQ(p.conv.padding, Size2(1));
    EXPECT_EQ(p.pool.kernel, Size2(2, 4));
    EXPECT_EQ(p.relu, with_relu);
    EXPECT_EQ(g[g.outputs[0]].node, 0);
    EXPECT_THAT(expect_same(values(), f(with_relu)), Contains("conv2d_pool: composed"));
  }
}

TEST(JoinConvPool, GradientsOfAConvolutionThatIsNotPooledAreOneNode) {
  const Body body = with_gradients(
      [](const Tensors& in) { return tanh(conv2d(in[0], in[1], in[2], {.padding = 1})); });
  const std::vector<std::string> ops = ops_of(joined(body));
  EXPECT_THAT(ops, Contains("conv2d_pool_wgrad"));
  EXPECT_THAT(ops, Not(Contains("conv2d_wgrad")));
  EXPECT_THAT(ops, Not(Contains("sum")));
  EXPECT_THAT(expect_same(values(), body), Contains("conv2d_pool_wgrad: composed"));
}

TEST(JoinConvPool, ATrainingStepHasThreeNodesPerLayer) {
  const std::vector<Shape> shapes = {{2, 3, 12, 12}, {6, 3, 3, 3}, {6}, {5, 6, 2, 2}, {5}, {7, 20}};
  const Body body = with_gradients([](const Tensors& in) {
    const Tensor a = max_pool2d(relu(conv2d(in[0], in[1], in[2])));
    const Tensor b = max_pool2d(relu(conv2d(a, in[3], in[4])));
    return linear(flatten(b, 1), in[5]);
  });
  const Graph g = joined(body, shapes);
  const std::vector<std::string> ops = ops_of(g);
  for (const char* op : {"conv2d_pool", "conv2d_pool_dgrad", "conv2d_pool_wgrad"})
    EXPECT_EQ(std::count(ops.begin(), ops.end(), op), 2) << op;
  // The first layer's is in the gradient of the second's input.
  EXPECT_EQ(std::count(ops.begin(), ops.end(), "relu_grad"), 1);
  for (const char* op :
       {"conv2d", "relu", "max_pool2d", "max_pool2d_grad", "conv2d_dgrad", "conv2d_wgrad", "sum"})
    EXPECT_THAT(ops, Not(Contains(op)));
  for (const Node& node : g.nodes)
    for (const ValueId id : node.out) EXPECT_EQ(&g.nodes[static_cast<size_t>(g[id].node)], &node);
  EXPECT_THAT(expect_same(values(shapes), body), Contains("conv2d_pool_wgrad: composed").Times(2));
  Tensors last = values(shapes);
  last[0] = contiguous(last[0], MemoryFormat::channels_last);
  last[1] = contiguous(last[1], MemoryFormat::channels_last);
  EXPECT_THAT(expect_same(last, body), Contains("conv2d_pool_dgrad: composed").Times(2));
}

TEST(JoinConvPool, TheFirstLayerHasNoInputGradientAndMayHaveNoBias) {
  const Body body = [](std::span<const Tensor> in) -> Tensors {
    const Tensor w = in[1].detach().set_requires_grad();
    const Tensor y = max_pool2d(tanh(max_pool2d(conv2d(in[0], w))));
    return {grad({y}, {w}, {y.detach()})[0]};
  };
  const Graph g = joined(body);
  const auto wgrad = std::find_if(g.nodes.begin(), g.nodes.end(), [](const Node& n) {
    return std::string_view(n.op->name) == "conv2d_pool_wgrad";
  });
  ASSERT_NE(wgrad, g.nodes.end());
  EXPECT_EQ(wgrad->out.size(), 1U);
  EXPECT_FALSE(wgrad->params.as<Conv2dPoolGradParams>().bias);
  expect_same(values(), body);
}

TEST(JoinConvPool, ABiasAloneIsSummedAfterThePooling) {
  const Body body = [](std::span<const Tensor> in) -> Tensors {
    const Tensor b = in[2].detach().set_requires_grad();
    const Tensor y = max_pool2d(conv2d(in[0], in[1], b));
    return {grad({y}, {b}, {y.detach()})[0]};
  };
  EXPECT_THAT(ops_of(joined(body)), ElementsAre("conv2d_pool", "sum"));
  expect_same(values(), body);
}

TEST(JoinConvPool, OtherReadersKeepWhatTheyRead) {
  // Of the convolution: a result.
  EXPECT_THAT(ops_of(joined([](std::span<const Tensor> in) -> Tensors {
                const Tensor y = conv2d(in[0], in[1]);
                return {y, max_pool2d(y)};
              })),
              ElementsAre("conv2d", "max_pool2d"));
  // Through a view.
  EXPECT_THAT(ops_of(joined([](std::span<const Tensor> in) -> Tensors {
                const Tensor y = relu(conv2d(in[0], in[1]));
                return {sum(flatten(y, 1)), max_pool2d(y)};
              })),
              ElementsAre("conv2d+relu", "reshape", "sum", "max_pool2d"));
  // Of the pooling's gradient.
  const Body body = with_gradients(
      [](const Tensors& in) { return max_pool2d(add(conv2d(in[0], in[1]), in[2])); });
  const std::vector<Shape> shapes = {{2, 3, 8, 8}, {4, 3, 3, 3}, {2, 4, 6, 6}};
  const std::vector<std::string> ops = ops_of(joined(body, shapes));
  EXPECT_THAT(ops, Contains("max_pool2d_grad"));
  EXPECT_THAT(ops, Contains("conv2d_pool_wgrad"));
  expect_same(values(shapes), body);
}

TEST(JoinConvPool, WritesWaitAndDivide) {
  const auto body = [](bool early) {
    return [=](std::span<const Tensor> in) -> Tensors {
      const Tensor w = mul(in[1], 2.0);
      const Tensor y = conv2d(in[0], w);
      if (early) fill_(w, 0);
      const Tensor p = max_pool2d(y);
      if (!early) fill_(w, 0);
      return {p, w};
    };
  };
  // Before a write in between, the pooling runs early.
  for (const bool early : {false, true}) {
    const Graph g = joined(body(early));
    EXPECT_THAT(ops_of(g), ElementsAre("mul", "conv2d_pool", "full", "copy_into"));
  }
  expect_same(values(), body(true));
  expect_same(values(), body(false));
  // What is between them is written to.
  const Body relu_in_place = [](std::span<const Tensor> in) -> Tensors {
    const Tensor y = conv2d(in[0], in[1]);
    copy_(y, neg(in[3]));
    return {max_pool2d(y)};
  };
  const std::vector<Shape> shapes = {{2, 3, 8, 8}, {4, 3, 3, 3}, {4}, {2, 4, 6, 6}};
  EXPECT_THAT(ops_of(joined(relu_in_place, shapes)), Not(Contains("conv2d_pool")));
  expect_same(values(shapes), relu_in_place);
}

TEST(JoinConvPool, NeedsAKernelOfItsOwn) {
  const Body body = with_gradients(
      [](const Tensors& in) { return max_pool2d(relu(conv2d(in[0], in[1], in[2]))); });
  CompiledFunction compiled(body);
  const Tensors arguments = values();
  compiled(arguments);
  for (const std::string& kernel : compiled.plan()->kernels())
    EXPECT_THAT(kernel, Not(testing::HasSubstr("composed")));
  const ComposedForced forced;
  compiled(arguments);
  EXPECT_THAT(compiled.plan()->kernels(), Contains("conv2d_pool: composed"));
  set_deterministic(true);
  compiled(arguments);
  EXPECT_THAT(compiled.plan()->kernels(), Not(Contains("conv2d_pool: composed")));
  set_deterministic(false);
}

TEST(CarryPrograms, AnActivationAfterAConvolution) {
  const auto of = [](Tensor (*f)(const Tensor&)) {
    return [=](std::span<const Tensor> in) -> Tensors { return {f(conv2d(in[0], in[1], in[2]))}; };
  };
  const Body erf = of([](const Tensor& x) { return gelu(x); });
  EXPECT_THAT(ops_of(joined(of(relu))), ElementsAre("conv2d+relu"));
  EXPECT_THAT(ops_of(joined(erf)), ElementsAre("conv2d+gelu"));
  EXPECT_THAT(ops_of(joined(of(tanh))), ElementsAre("conv2d+tanh"));
  expect_same(values(), of(relu));
  expect_same(values(), erf);
  // Gradients read relu's result, but GELU's operand.
  const auto trained = [](Tensor (*f)(const Tensor&)) {
    return with_gradients([=](const Tensors& in) { return f(conv2d(in[0], in[1], in[2])); });
  };
  EXPECT_THAT(ops_of(joined(trained(relu))), Contains("conv2d+relu"));
  EXPECT_THAT(ops_of(joined(trained([](const Tensor& x) { return gelu(x); }))),
              Contains("conv2d(kept)+gelu"));
  EXPECT_THAT(expect_same(values(), trained(relu)), Contains("anchored: composed"));
}

}  // namespace
}  // namespace mica
