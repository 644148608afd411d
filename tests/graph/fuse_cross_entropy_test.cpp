// The loss and its gradient become one node, on the null device where values do not matter; and
// that the values stay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "mica/graph/passes/passes.h"
#include "mica/graph/plan.h"
#include "mica/mica.h"
#include "mica/op/dispatch.h"
#include "mica/ops/cross_entropy/cross_entropy.h"

namespace mica {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

using Body = std::function<Tensors(std::span<const Tensor>)>;

std::vector<std::string> ops_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const Node& node : graph.nodes)
    if (!node.is_view()) names.emplace_back(node.op->name);
  return names;
}

/// The graph of a body of logits and targets after the pass.
Graph joined(const Body& body, DType dtype = DType::f32) {
  const TensorSpec specs[] = {TensorSpec::contiguous({6, 4}, dtype, Device::null()),
                              TensorSpec::contiguous({6}, DType::i64, Device::null())};
  Graph graph = capture(body, specs).graph;
  join_patterns(graph);
  remove_dead_nodes(graph);
  return graph;
}

/// The loss of `in`, scaled, and its gradient.
Tensors with_gradient(std::span<const Tensor> in, double scale) {
  Tensor logits = in[0].detach();
  logits.set_requires_grad(true);
  const Tensor loss = cross_entropy(logits, in[1]);
  const Tensor root = scale == 1 ? loss : mul(loss, scale);
  const Tensors gradients = grad({root}, {logits});
  return {loss.detach(), gradients[0]};
}

TEST(FuseCrossEntropy, TheLossAndItsGradientAreOneNode) {
  const Graph g = joined([](std::span<const Tensor> in) { return with_gradient(in, 1); });
  ASSERT_THAT(ops_of(g), ElementsAre("cross_entropy_with_grad"));
  const auto node =
      std::find_if(g.nodes.begin(), g.nodes.end(), [](const Node& n) { return !n.is_view(); });
  ASSERT_EQ(g.outputs.size(), 2U);
  EXPECT_EQ(node->out[0], g.outputs[0]);
  EXPECT_EQ(node->out[1], g.root(g.outputs[1]));
}

TEST(FuseCrossEntropy, AScaledLossScalesTheGradient) {
  const Body body = [](std::span<const Tensor> in) { return with_gradient(in, 8); };
  const std::vector<std::string> names = ops_of(joined(body));
  EXPECT_EQ(std::count(names.begin(), names.end(), "cross_entropy_with_grad"), 1);
  EXPECT_EQ(std::count(names.begin(), names.end(), "cross_entropy_grad"), 0);
  EXPECT_EQ(names.back(), "mul");
  // Halves are scaled before they are rounded.
  const std::vector<std::string> halves = ops_of(joined(body, DType::f16));
  EXPECT_EQ(std::count(halves.begin(), halves.end(), "cross_entropy_grad"), 1);
}

TEST(FuseCrossEntropy, WhatIsNotTheSameStays) {
  // A loss alone.
  EXPECT_THAT(ops_of(joined([](std::span<const Tensor> in) -> Tensors {
                return {cross_entropy(in[0], in[1])};
              })),
              ElementsAre("cross_entropy"));
  // The logits change in between.
  const std::vector<std::string> names = ops_of(joined([](std::span<const Tensor> in) -> Tensors {
    Tensor logits = add(in[0], in[0]);
    const Outputs loss = dispatch(find_op("cross_entropy"), CrossEntropyParams{}, {logits, in[1]});
    const Tensor one = full({}, 1, {.device = Device::null()});
    fill_(logits, 0);
    return {loss[0], cross_entropy_grad(one, logits, in[1], loss[1], {})};
  }));
  EXPECT_EQ(std::count(names.begin(), names.end(), "cross_entropy_with_grad"), 0);
}

TEST(FuseCrossEntropy, TheValuesStay) {
  manual_seed(3);
  const Tensor arguments[] = {uniform({37, 5}, -2, 2), randint(0, 5, {37})};
  for (const double scale : {1.0, 3.0}) {
    const Body body = [=](std::span<const Tensor> in) { return with_gradient(in, scale); };
    const Tensors eager = body(arguments);
    // The CPU has no kernel that is more than the two calls: nothing is joined unless it is forced.
    CompiledFunction apart(body);
    apart(arguments);
    EXPECT_THAT(apart.plan()->kernels(), Not(Contains("cross_entropy_with_grad: composed")));
    force_kernel("cross_entropy_with_grad", "composed");
    CompiledFunction compiled(body);
    const Tensors results = compiled(arguments);
    force_kernel("cross_entropy_with_grad", "");
    EXPECT_THAT(compiled.plan()->kernels(), Contains("cross_entropy_with_grad: composed"));
    for (size_t i = 0; i < eager.size(); ++i)
      EXPECT_THAT(results[i].to_vector<float>(),
                  testing::Pointwise(testing::FloatNear(1e-6F), eager[i].to_vector<float>()))
          << i;
  }
}

}  // namespace
}  // namespace mica
