// Which calls become one, on the null device where values do not matter; and that the values stay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/graph/passes/passes.h"
#include "mica/graph/plan.h"
#include "mica/mica.h"
#include "tests/graph/ops_of.h"

namespace mica {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Body = std::function<Tensors(std::span<const Tensor>)>;

TensorSpec null_spec(const Shape& shape) {
  return TensorSpec::contiguous(shape, DType::f32, Device::null());
}

Graph fused(const std::vector<Shape>& inputs, const Body& body) {
  std::vector<TensorSpec> specs;
  for (const Shape& s : inputs) specs.push_back(null_spec(s));
  Graph graph = capture(body, specs).graph;
  fuse_elementwise(graph);
  return graph;
}

/// Runs the body eagerly and compiled in deterministic mode, and compares every bit.
void expect_same(const Tensors& arguments, const Body& body) {
  set_deterministic(true);
  const Tensors eager = body(arguments);
  CompiledFunction compiled(body);
  for (int run = 0; run < 2; ++run) {
    const Tensors results = compiled(arguments);
    ASSERT_EQ(results.size(), eager.size());
    for (size_t i = 0; i < eager.size(); ++i) {
      EXPECT_EQ(results[i].strides(), eager[i].strides()) << i;
      EXPECT_EQ(results[i].to_vector<float>(), eager[i].to_vector<float>()) << i;
    }
  }
  set_deterministic(false);
}

TEST(FuseElementwise, AChainIsOneNode) {
  const Body body = [](std::span<const Tensor> in) -> Tensors {
    return {relu(add(mul(in[0], in[1]), 0.5))};
  };
  const Graph g = fused({{64, 10}, {64, 10}}, body);
  ASSERT_THAT(ops_of(g), ElementsAre("fused"));
  EXPECT_EQ(g.nodes[0].in.size(), 3U);
  EXPECT_EQ(g.nodes[0].out, g.outputs);
  EXPECT_THAT(g.dump(), HasSubstr("%3 = mul(%0, %1) {}; %4 = add(%3, %2) {}; %5 = relu(%4) {}; "
                                  "return %5"));
  manual_seed(1);
  expect_same({uniform({64, 10}, -1, 1), uniform({64, 10}, -1, 1)}, body);
}

TEST(FuseElementwise, LargeTensorsAndBroadcastOperandsHaveTheSameBits) {
  manual_seed(2);
  const Tensor bias = uniform({33, 1, 1}, -1, 1);
  const Body body = [&](std::span<const Tensor> in) -> Tensors {
    const Tensor y = gelu(add(in[0], bias));
    return {mul(y, 0.25), sigmoid(sub(y, in[0]))};
  };
  const Tensor x = uniform({5, 33, 51, 67}, -3, 3);
  expect_same({x}, body);
  expect_same({contiguous(x, MemoryFormat::channels_last)}, body);
  const Tensor large = uniform({4200000}, -3, 3);  // written past the caches
  expect_same({large}, [](std::span<const Tensor> in) -> Tensors {
    const Tensor y = exp(neg(in[0]));
    return {y, relu(sub(y, 1.0))};
  });
}

TEST(FuseElementwise, AResultThatIsNeededOutsideComesOut) {
  const Graph g = fused({{8, 8}}, [](std::span<const Tensor> in) -> Tensors {
    const Tensor y = exp(in[0]);
    return {sum(y), relu(neg(y))};
  });
  ASSERT_THAT(ops_of(g), ElementsAre("fused", "sum"));
  EXPECT_EQ(g.nodes[0].out.size(), 2U);
}

TEST(FuseElementwise, APathThroughAnotherOpDivides) {
  const Body body = [](std::span<const Tensor> in) -> Tensors {
    const Tensor e = exp(neg(in[0]));
    return {relu(div(e, sum(e, {1}, true)))};
  };
  const Graph g = fused({{8, 8}}, body);
  EXPECT_THAT(ops_of(g), ElementsAre("fused", "sum", "fused"));
  expect_same({uniform({8, 8}, -1, 1)}, body);
}

TEST(FuseElementwise, APathThroughAnotherGroupDivides) {
  // Each pair could be one alone; both cannot, for each would wait for the other.
  const Body body = [](std::span<const Tensor> in) -> Tensors {
    const Tensor a = exp(in[0]);
    const Tensor b = neg(in[1]);
    const Tensor c = add(b, sum(a));
    const Tensor d = mul(a, sum(b));
    return {c, d};
  };
  const Graph g = fused({{8}, {8}}, body);
  EXPECT_EQ(g.nodes.size(), 5U);
  expect_same({uniform({8}, -1, 1), uniform({8}, -1, 1)}, body);
}

TEST(FuseElementwise, OtherShapesAndLayoutsAreOtherNodes) {
  EXPECT_THAT(
      ops_of(fused({{8}, {4, 8}},
                   [](std::span<const Tensor> in) -> Tensors { return {add(neg(in[0]), in[1])}; })),
      ElementsAre("neg", "add"));
  // A transposed operand is not read in runs.
  EXPECT_THAT(ops_of(fused({{8, 8}, {8, 8}},
                           [](std::span<const Tensor> in) -> Tensors {
                             return {relu(add(transpose(in[0], 0, 1), in[1]))};
                           })),
              ElementsAre("permute", "add", "relu"));
  // Nor is a single call worth a program.
  EXPECT_THAT(
      ops_of(fused({{8}}, [](std::span<const Tensor> in) -> Tensors { return {neg(in[0])}; })),
      ElementsAre("neg"));
}

TEST(FuseElementwise, WritesKeepTheirPlace) {
  const Tensor w = ones({4});
  const Body body = [&](std::span<const Tensor> in) -> Tensors {
    const Tensor before = mul(in[0], w);
    copy_(w, neg(in[0]));
    const Tensor after = add(before, w);
    return {after, relu(after)};
  };
  const TensorSpec spec = TensorSpec::contiguous({4}, DType::f32);
  Graph g = capture(body, {&spec, 1}).graph;
  fuse_elementwise(g);
  ASSERT_THAT(ops_of(g), ElementsAre("mul", "neg", "copy_into", "fused"));
  EXPECT_EQ(g[g.nodes[2].out[0]].node, 2);
  EXPECT_EQ(g[g.outputs[0]].node, 3);
  CompiledFunction compiled(body);
  const Tensor x = tensor({1.0F, -2.0F, 3.0F, -4.0F}, {4});
  EXPECT_EQ(compiled({&x, 1})[0].to_vector<float>(), (std::vector<float>{0, 0, 0, 0}));
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{-1, 2, -3, 4}));
}

TEST(FuseElementwise, AWriteToWhatWasFusedComesAfterwards) {
  const Body body = [](std::span<const Tensor> in) -> Tensors {
    const Tensor y = neg(in[0]);
    const Tensor z = relu(y);
    fill_(y, 3);
    return {y, add(z, y)};
  };
  expect_same({tensor({1.0F, -2.0F, 3.0F, -4.0F}, {4})}, body);
}

TEST(FuseElementwise, ProgramsHaveALimit) {
  const Body many = [](std::span<const Tensor> in) -> Tensors {
    Tensor y = in[0];
    for (int i = 0; i < 60; ++i) y = sigmoid(y);
    return {y};
  };
  EXPECT_THAT(ops_of(fused({{16}}, many)), ElementsAre("fused", "fused", "fused"));
  expect_same({uniform({16}, -1, 1)}, many);
  const Body wide = [](std::span<const Tensor> in) -> Tensors {
    Tensor y = in[0];
    for (size_t i = 1; i < in.size(); ++i) y = add(y, in[i]);
    return {y};
  };
  const Graph g = fused(std::vector<Shape>(12, Shape{16}), wide);
  EXPECT_THAT(ops_of(g), ElementsAre("fused", "fused"));
  for (const Node& node : g.nodes) EXPECT_LE(node.in.size(), 8U);
  // Every result is returned: four at a time.
  const Graph all = fused({{16}}, [](std::span<const Tensor> in) -> Tensors {
    Tensors out;
    for (int i = 0; i < 8; ++i) out.push_back(neg(i == 0 ? in[0] : out.back()));
    return out;
  });
  EXPECT_THAT(ops_of(all), ElementsAre("fused", "fused"));
}

TEST(FuseElementwise, ATrainingStepHasTheSameBits) {
  manual_seed(3);
  const Tensor x = uniform({32, 20}, -1, 1);
  const auto train = [&](bool compile_it) {
    manual_seed(4);
    const Tensor w = normal({20, 20}, 0, 0.3).set_requires_grad();
    const Tensor scale = uniform({20}, 0.5, 1).set_requires_grad();
    const Tensor lr = scalar(0.1);
    const Body step = [&](std::span<const Tensor> in) -> Tensors {
      const Tensor h = mul(silu(matmul(in[0], w)), scale);
      const Tensor loss = mean(square(sub(dropout(h, 0.3), in[0])));
      loss.backward();
      const NoGrad guard;
      sgd_update(lr, {w, scale}, {w.grad(), scale.grad()}, {}, {});
      w.set_grad({});
      scale.set_grad({});
      return {loss};
    };
    CompiledFunction compiled(step);
    for (int i = 0; i < 5; ++i) compile_it ? compiled({&x, 1}) : step({&x, 1});
    return std::pair(w.to_vector<float>(), scale.to_vector<float>());
  };
  set_deterministic(true);
  EXPECT_EQ(train(false), train(true));
  set_deterministic(false);
}

TEST(FuseElementwise, TheCpuKeepsPiecesInTheCache) {
  auto f = compile([](const Tensor& x) { return relu(add(mul(x, x), 1.0)); });
  f(ones({100000}));
  EXPECT_THAT(f.function()->plan()->kernels(), ElementsAre("fused: tiled"));
}

}  // namespace
}  // namespace mica
