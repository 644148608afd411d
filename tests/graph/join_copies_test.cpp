// Copies of one kind become one call: where, on the null device; and that the values stay.
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

using Body = std::function<Tensors(std::span<const Tensor>)>;

std::vector<std::string> joined(const Body& body) {
  const std::vector<TensorSpec> specs(2,
                                      TensorSpec::contiguous({4, 4}, DType::f32, Device::null()));
  Graph graph = capture(body, specs).graph;
  join_copies(graph);
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (const ValueId id : graph.nodes[i].out) EXPECT_EQ(graph[id].node, static_cast<int>(i));
  return ops_of(graph);
}

TEST(JoinCopies, OfTensorsOutsideAtTheStart) {
  const Tensor a = zeros({4, 4}, {.device = Device::null()});
  const Tensor b = zeros({4, 4}, {.device = Device::null()});
  EXPECT_THAT(joined([&](std::span<const Tensor> in) -> Tensors {
                const Tensor x = matmul(cast(in[0], DType::bf16), cast(a, DType::bf16));
                return {matmul(x, cast(b, DType::bf16))};
              }),
              ElementsAre("copies", "copy", "matmul", "matmul"));
  // Not of one that is written to between them.
  EXPECT_THAT(joined([&](std::span<const Tensor> in) -> Tensors {
                const Tensor x = matmul(cast(in[0], DType::bf16), cast(a, DType::bf16));
                fill_(b, 1);
                return {matmul(x, cast(b, DType::bf16))};
              }),
              ElementsAre("copy", "copy", "matmul", "full", "copy_into", "copy", "matmul"));
}

TEST(JoinCopies, OfResultsWhereTheLastIsMade) {
  const Tensor a = zeros({4, 4}, {.device = Device::null()});
  EXPECT_THAT(joined([&](std::span<const Tensor> in) -> Tensors {
                const Tensor x = cast(matmul(in[0], a), DType::bf16);
                const Tensor y = cast(matmul(in[1], a), DType::bf16);
                return {add(x, y)};
              }),
              ElementsAre("matmul", "matmul", "copies", "add"));
  // Who reads one at once reads it there.
  EXPECT_THAT(joined([&](std::span<const Tensor> in) -> Tensors {
                const Tensor x = relu(cast(matmul(in[0], a), DType::bf16));
                const Tensor y = cast(matmul(in[1], a), DType::bf16);
                return {add(x, y)};
              }),
              ElementsAre("matmul", "copy", "relu", "matmul", "copy", "add"));
}

TEST(JoinCopies, TheValuesStay) {
  manual_seed(5);
  const Tensors weights = {uniform({4, 4}, -1, 1), uniform({4, 4}, -1, 1), uniform({4, 4}, -1, 1)};
  const Body body = [&](std::span<const Tensor> in) -> Tensors {
    Tensor x = in[0];
    for (const Tensor& w : weights) {
      x = cast(matmul(cast(x, DType::bf16), cast(w, DType::bf16)), DType::f32);
      add_(w, x);
    }
    return {x};
  };
  const Tensor x = uniform({4, 4}, -1, 1);
  Tensors kept;
  for (const Tensor& w : weights) kept.push_back(clone(w));
  std::vector<std::vector<float>> want;
  for (int i = 0; i < 2; ++i) want.push_back(body({&x, 1})[0].to_vector<float>());
  for (size_t k = 0; k < weights.size(); ++k) copy_(weights[k], kept[k]);
  force_kernel("copies", "composed");
  CompiledFunction compiled(body);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(compiled({&x, 1})[0].to_vector<float>(), want.at(i));
  force_kernel("copies", "");
  EXPECT_THAT(compiled.plan()->kernels(), Contains("copies: composed"));
}

}  // namespace
}  // namespace mica
