// Where the nodes of a graph were called: captured, and kept by the passes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/graph/capture.h"
#include "mica/graph/graph.h"
#include "mica/graph/passes/passes.h"
#include "mica/mica.h"

namespace mica {
namespace {

using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

struct Training {
  nn::Sequential net{nn::Conv2d({.in = 1, .out = 4, .kernel = 3}),
                     nn::Sequential(nn::ReLU(), nn::Flatten()), nn::Linear(4 * 4 * 4, 3)};
  optim::Adam optimizer{net.parameters(), {.lr = 0.1}};
  Tensor x = uniform({2, 1, 6, 6}, -1, 1);

  Tensor step() {
    optimizer.zero_grad();
    Tensor loss = mean(square(net(x)));
    loss.backward();
    optimizer.step();
    return loss;
  }
  Graph captured() {
    return capture([&](std::span<const Tensor>) -> Tensors { return {step()}; },
                   std::span<const Tensor>())
        .graph;
  }
};

/// Each op beside where it was called.
std::vector<std::pair<std::string, std::string>> scopes(const Graph& g) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const Node& node : g.nodes)
    all.emplace_back(node.op->name, node.scope ? to_string(*node.scope) : "nowhere");
  return all;
}

TEST(Scope, NodesKnowTheirModuleAndPhase) {
  const auto all = scopes(Training().captured());
  EXPECT_THAT(all, Contains(Pair("conv2d", "0 forward")));
  EXPECT_THAT(all, Contains(Pair("relu", "1.0 forward")));
  EXPECT_THAT(all, Contains(Pair("square", "forward")));
  EXPECT_THAT(all, Contains(Pair("relu_grad", "1.0 backward")));
  EXPECT_THAT(all, Contains(Pair("conv2d_wgrad", "0 backward")));
  EXPECT_THAT(all, Contains(Pair("adam_update", "update")));
  EXPECT_THAT(all, Not(Contains(Pair("conv2d_wgrad", "backward"))));
}

TEST(Scope, ModulesCalledAgainInBackwardKeepTheirPath) {
  const nn::Sequential net(nn::Linear(3, 3), nn::ReLU());
  const Graph g = capture(
                      [&](std::span<const Tensor> in) -> Tensors {
                        const Tensor y = checkpoint([&](const Tensor& x) { return net(x); }, in[0]);
                        sum(y).backward();
                        return {y};
                      },
                      std::vector{TensorSpec::contiguous({2, 3}, DType::f32, Device::cpu())})
                      .graph;
  EXPECT_THAT(scopes(g), Contains(Pair("relu", "1 backward")));
}

TEST(Scope, PassesKeepThem) {
  Graph g = Training().captured();
  run_passes(g);
  EXPECT_THAT(scopes(g), Each(Pair(testing::_, Not("nowhere"))));
  for (const Node& node : g.nodes) EXPECT_GE(node.id, 0) << node.op->name;
  EXPECT_THAT(g.dump(), HasSubstr(" 0 backward"));
}

TEST(Scope, ErrorsOfAPlanSayWhere) {
  const nn::Sequential net(nn::Embedding({.rows = 4, .dim = 2}));
  auto compiled = compile([&](const Tensor& i) { return net(i); });
  try {
    compiled(tensor(std::vector<int64_t>{1, 7}, {2}));
    FAIL() << "expected an error";
  } catch (const IndexError& e) {
    EXPECT_THAT(e.what(), HasSubstr("(in 0 forward)"));
  }
}

}  // namespace
}  // namespace mica
