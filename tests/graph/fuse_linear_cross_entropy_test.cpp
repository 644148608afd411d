// A classifier's last layer and its loss become one node, on the null device where values do not
// matter; and that the values stay.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/graph/passes/passes.h"
#include "mica/graph/plan.h"
#include "mica/mica.h"
#include "mica/ops/cross_entropy/cross_entropy.h"

namespace mica {
namespace {

using testing::Contains;
using testing::Not;

using Body = std::function<Tensors(std::span<const Tensor>)>;

enum class Also { nothing, logits };

/// The loss and the gradients of x, weight and bias where there is one: a hidden layer's tanh lies
/// before the last. With the logits where they are asked for.
Body trained(bool bias, Also also = Also::nothing) {
  return [=](std::span<const Tensor> in) -> Tensors {
    Tensors leaves;
    for (int i = 0; i < (bias ? 3 : 2); ++i)
      leaves.push_back(in[static_cast<size_t>(i)].detach().set_requires_grad());
    const Tensor logits = linear(tanh(leaves[0]), leaves[1], bias ? leaves[2] : Tensor());
    const Tensor loss = cross_entropy(logits, in[3], {.ignore_index = 1, .label_smoothing = 0.1});
    Tensors results = {loss.detach()};
    for (const Tensor& g : grad({loss}, leaves)) results.push_back(g);
    if (also == Also::logits) results.push_back(argmax(logits.detach(), 1));
    return results;
  };
}

std::vector<std::string> ops_after(const Body& body, DType dtype = DType::f32) {
  const auto spec = [&](const Shape& shape) {
    return TensorSpec::contiguous(shape, dtype, Device::null());
  };
  const TensorSpec specs[] = {spec({6, 9}), spec({4, 9}), spec({4}),
                              TensorSpec::contiguous({6}, DType::i64, Device::null())};
  Graph graph = capture(body, specs).graph;
  run_passes(graph);
  std::vector<std::string> names;
  for (const Node& node : graph.nodes)
    if (!node.is_view()) names.emplace_back(node.op->name);
  return names;
}

TEST(FuseLinearCrossEntropy, TheLastLayerAndItsLossAreOneNode) {
  for (const bool bias : {false, true}) {
    const std::vector<std::string> names = ops_after(trained(bias));
    EXPECT_THAT(names, Contains("linear_cross_entropy_dgrad").Times(1));
    EXPECT_THAT(names, Not(Contains("linear")));
    // The gradient of the weight, with the bias's where there is one.
    EXPECT_THAT(names, Contains(bias ? "linear_wgrad" : "matmul").Times(1));
    EXPECT_THAT(names, Not(Contains("cross_entropy_with_grad")));
  }
}

TEST(FuseLinearCrossEntropy, LogitsThatSomebodyReadsStay) {
  const std::vector<std::string> names = ops_after(trained(true, Also::logits));
  EXPECT_THAT(names, Contains("linear"));
  EXPECT_THAT(names, Contains("cross_entropy_with_grad"));
  // Halves are rounded in between.
  EXPECT_THAT(ops_after(trained(true), DType::f16), Not(Contains("linear_cross_entropy")));
}

TEST(FuseLinearCrossEntropy, TheValuesStay) {
  manual_seed(3);
  const Tensor arguments[] = {uniform({37, 21}, -2, 2), uniform({5, 21}, -1, 1),
                              uniform({5}, -1, 1), randint(0, 5, {37})};
  for (const bool bias : {false, true}) {
    const Body body = trained(bias);
    const Tensors eager = body(arguments);
    force_kernel("cross_entropy_with_grad", "composed");
    force_kernel("linear_cross_entropy", "composed");
    force_kernel("linear_cross_entropy_dgrad", "composed");
    CompiledFunction compiled(body);
    const Tensors results = compiled(arguments);
    force_kernel("linear_cross_entropy_dgrad", "");
    force_kernel("linear_cross_entropy", "");
    force_kernel("cross_entropy_with_grad", "");
    EXPECT_THAT(compiled.plan()->kernels(), Contains("linear_cross_entropy_dgrad: composed"));
    ASSERT_EQ(results.size(), eager.size());
    for (size_t i = 0; i < eager.size(); ++i)
      EXPECT_THAT(results[i].to_vector<float>(),
                  testing::Pointwise(testing::FloatNear(1e-6F), eager[i].to_vector<float>()))
          << i;
  }
}

}  // namespace
}  // namespace mica
