// Chains with a reduction at the end: which calls become one, on the null device, and their values
// on the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/graph/passes/passes.h"
#include "mica/graph/plan.h"
#include "mica/mica.h"
#include "mica/ops/fused/fused_reduce.h"
#include "tests/graph/ops_of.h"

namespace mica {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

using Body = std::function<Tensors(std::span<const Tensor>)>;

Graph fused(const std::vector<Shape>& inputs, const Body& body) {
  std::vector<TensorSpec> specs;
  for (const Shape& s : inputs)
    specs.push_back(TensorSpec::contiguous(s, DType::f32, Device::null()));
  Graph graph = capture(body, specs).graph;
  fuse_elementwise(graph);
  fuse_reductions(graph);
  return graph;
}

void expect_near(const Tensors& arguments, const Body& body, float tolerance) {
  const Tensors eager = body(arguments);
  CompiledFunction compiled(body);
  for (int run = 0; run < 2; ++run) {
    const Tensors results = compiled(arguments);
    for (size_t i = 0; i < eager.size(); ++i) {
      EXPECT_EQ(results[i].shape(), eager[i].shape()) << i;
      EXPECT_THAT(results[i].to_vector<float>(),
                  testing::Pointwise(testing::FloatNear(tolerance), eager[i].to_vector<float>()));
    }
  }
  EXPECT_THAT(compiled.plan()->kernels(), Contains("fused_reduce: tiled"));
}

TEST(FuseReductions, AChainAndASumAreOneNode) {
  const Body body = [](std::span<const Tensor> in) -> Tensors {
    return {sum(square(sub(in[0], in[1])), {1})};
  };
  const Graph g = fused({{64, 10}, {64, 10}}, body);
  ASSERT_THAT(ops_of(g), ElementsAre("fused_reduce"));
  EXPECT_EQ(g.nodes[0].out, g.outputs);
  EXPECT_EQ(g[g.outputs[0]].node, 0);
  manual_seed(1);
  expect_near({uniform({64, 10}, -1, 1), uniform({64, 10}, -1, 1)}, body, 1e-5F);
  expect_near({uniform({300, 1000}, -1, 1), uniform({1000}, -1, 1)}, body, 3e-4F);
}

TEST(FuseReductions, RowsOfFewColumns) {
  const Body body = [](std::span<const Tensor> in) -> Tensors {
    return {sum(square(in[0]), {2}), max(neg(in[0]), {1, 2})};
  };
  manual_seed(4);
  // Rows that end where pieces do, and rows that do not.
  for (const int64_t columns : {2, 3, 7, 8, 9, 31})
    expect_near({uniform({3, 700, columns}, -1, 1)}, body, 1e-5F);
}

TEST(FuseReductions, ASingleCallIsEnough) {
  const Body body = [](std::span<const Tensor> in) -> Tensors {
    return {max(abs(in[0])), min(exp(in[0]), {1, 2}, true)};
  };
  EXPECT_THAT(ops_of(fused({{4, 5, 6}}, body)), ElementsAre("fused_reduce", "fused_reduce"));
  manual_seed(2);
  expect_near({uniform({4, 50, 60}, -1, 1)}, body, 1e-6F);
}

TEST(FuseReductions, AMeanTakesItsDivisionAlong) {
  const Body body = [](std::span<const Tensor> in) -> Tensors {
    return {mean(square(sub(in[0], in[1])))};
  };
  const Graph g = fused({{32, 33}, {32, 33}}, body);
  ASSERT_THAT(ops_of(g), ElementsAre("fused_reduce"));
  EXPECT_EQ(g.nodes[0].in.size(), 3U);
  EXPECT_THAT(g.nodes[0].params.print(), HasSubstr("%3 = sub(%0, %1) {}; %4 = square(%3) {}; "
                                                   "%5 = div(%4, %2) {}; return %5"));
  manual_seed(3);
  expect_near({uniform({320, 331}, -1, 1), uniform({320, 331}, -1, 1)}, body, 1e-6F);
  const Tensor far = full({7}, 1e30);
  expect_near(
      {far, zeros({7})},
      [](std::span<const Tensor> in) -> Tensors { return {mean(sub(in[0], in[1]))}; }, 1e24F);
}

TEST(FuseReductions, LeavesAloneWhatIsNeededElsewhere) {
  EXPECT_THAT(ops_of(fused({{8, 8}},
                           [](std::span<const Tensor> in) -> Tensors {
                             const Tensor y = exp(neg(in[0]));
                             return {sum(y), y};
                           })),
              ElementsAre("fused", "sum"));
  EXPECT_THAT(ops_of(fused({{8, 8}},
                           [](std::span<const Tensor> in) -> Tensors {
                             return {sum(exp(neg(in[0])), {0})};
                           })),
              ElementsAre("fused", "sum"));
  EXPECT_THAT(
      ops_of(fused({{8, 8}}, [](std::span<const Tensor> in) -> Tensors { return {sum(in[0])}; })),
      ElementsAre("sum"));
}

TEST(FuseReductions, WritesStayBehindWhatTheyWriteOver) {
  const Tensor w = ones({6});
  const Body body = [&](std::span<const Tensor> in) -> Tensors {
    const Tensor y = mul(in[0], w);
    fill_(w, 5);
    return {sum(y), sum(mul(in[0], w))};
  };
  CompiledFunction compiled(body);
  const Tensor x = ones({6});
  const Tensors results = compiled({&x, 1});
  EXPECT_EQ(results[0].item(), 6);
  EXPECT_EQ(results[1].item(), 30);
}

TEST(FuseReductions, ATrainingStepComputesTheSame) {
  manual_seed(4);
  const Tensor x = uniform({40, 12}, -1, 1);
  const auto train = [&](bool compiled) {
    manual_seed(5);
    const Tensor w = normal({12, 12}, 0, 0.3).set_requires_grad();
    const Tensor lr = scalar(0.1);
    const Body step = [&](std::span<const Tensor> in) -> Tensors {
      const Tensor y = matmul(in[0], w);
      const Tensor loss = add(mean(square(sub(y, in[0]))), mul(sum(abs(w)), 1e-3));
      loss.backward();
      const NoGrad guard;
      sgd_update(lr, {w}, {w.grad()}, {}, {});
      w.set_grad({});
      return {loss};
    };
    CompiledFunction f(step);
    std::vector<float> seen;
    for (int i = 0; i < 5; ++i)
      seen.push_back(static_cast<float>((compiled ? f({&x, 1}) : step({&x, 1}))[0].item()));
    const std::vector<float> last = w.to_vector<float>();
    seen.insert(seen.end(), last.begin(), last.end());
    return seen;
  };
  EXPECT_THAT(train(true), testing::Pointwise(testing::FloatNear(1e-5F), train(false)));
}

}  // namespace
}  // namespace mica
