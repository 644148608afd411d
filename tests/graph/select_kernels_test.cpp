// Kernels that want an operand in another layout get it from a node of the graph.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "mica/graph/passes/passes.h"
#include "mica/graph/plan.h"
#include "mica/mica.h"
#include "mica/op/select.h"
#include "tests/graph/ops_of.h"

namespace mica {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Its kernels on the CPU read rows: of a transposed tensor they want a copy.
Tensor normed(const Tensor& x) { return layer_norm(x, {x.shape()[x.rank() - 1]}, {}, {}); }

int64_t count(const Graph& g, const std::string& op) {
  const auto names = ops_of(g);
  return std::count(names.begin(), names.end(), op);
}

template <class Compiled>
const Plan& plan_of(Compiled& compiled) {
  return *compiled.function()->plan();
}

TEST(SelectKernels, EqualCopiesAreOneNodeWithTheScopeOfItsReader) {
  const Tensor x = uniform({64, 48});
  const auto f = [](const Tensor& a) {
    const Tensor t = transpose(a, 0, 1);
    const Tensor first = normed(t);
    const Tensor second = layer_norm(t, {64}, {}, {}, 0.5);
    return mul(exp(first), second);
  };
  auto compiled = compile(f);
  const Tensor y = compiled(x);
  const Graph& g = plan_of(compiled).graph();
  EXPECT_EQ(count(g, "copy"), 1) << g.dump();
  EXPECT_EQ(count(plan_of(compiled).captured().graph, "copy"), 0);
  const auto copy =
      std::find_if(g.nodes.begin(), g.nodes.end(), [](const Node& n) { return n.op->copies; });
  const Node& reader = *(copy + 1);
  EXPECT_STREQ(reader.op->name, "layer_norm");
  EXPECT_EQ(reader.in[0], copy->out[0]);
  EXPECT_EQ(copy->scope, reader.scope);
  EXPECT_EQ(copy->id, reader.id);
  EXPECT_THAT(g.dump(), HasSubstr("  by strided"));
  EXPECT_THAT(g.svg(), HasSubstr("by strided"));
  EXPECT_EQ(y.to_vector<float>(), f(x).to_vector<float>());
}

TEST(SelectKernels, EveryStepIsANode) {
  const Tensor x = uniform({4, 3, 8, 8});
  const Tensor w = uniform({4, 3, 3, 3});
  auto compiled = compile([&](const Tensor& a) {
    const Tensor y = conv2d(permute(a, {0, 1, 3, 2}), w, {}, {.padding = 1});
    return sum(relu(transpose(y, 2, 3)));
  });
  compiled(x);
  const Plan& plan = plan_of(compiled);
  std::vector<std::string> nodes;
  for (const Node& node : plan.graph().nodes)
    if (!node.is_view())
      nodes.push_back(std::string(node.op->name) + ": " + node.kernel->kernel->name);
  EXPECT_EQ(plan.kernels(), nodes);
  EXPECT_EQ(count(plan.captured().graph, "relu"), 1);
  for (const Node& node : plan.captured().graph.nodes) EXPECT_EQ(node.kernel, nullptr);
}

TEST(SelectKernels, ACopyOfWhatIsWrittenToInBetweenIsMadeAgain) {
  const Tensor state = uniform({48, 64});
  const Tensor x = uniform({64, 48});
  const auto f = [&](const Tensor& a) {
    const Tensor t = transpose(state, 0, 1);
    const Tensor before = normed(t);
    copy_(state, transpose(a, 0, 1));
    return add(before, normed(transpose(state, 0, 1)));
  };
  const Tensor start = clone(state);
  const std::vector<float> wanted = f(x).to_vector<float>();
  copy_(state, start);
  auto compiled = compile(f);
  EXPECT_EQ(compiled(x).to_vector<float>(), wanted);
  EXPECT_EQ(plan_of(compiled).prologue_steps(), 0U);
  copy_(state, start);
  EXPECT_EQ(compiled(x).to_vector<float>(), wanted);
}

TEST(SelectKernels, CopiesOfUnwrittenTensorsAreKept) {
  const Tensor w = uniform({64, 48});
  const Tensor x = uniform({64});
  auto compiled = compile([&](const Tensor& a) { return add(normed(transpose(w, 0, 1)), a); });
  const auto wanted = add(normed(transpose(w, 0, 1)), x).to_vector<float>();
  EXPECT_EQ(compiled(x).to_vector<float>(), wanted);
  const Plan& plan = plan_of(compiled);
  EXPECT_GE(plan.prologue_steps(), 1U);
  for (size_t i = 0; i < plan.steps(); ++i) EXPECT_STRNE(plan.step(i).op, "copy");
  copy_(w, add(w, 1.0));
  copy_(w, mul(w, w));
  EXPECT_EQ(compiled(x).to_vector<float>(), add(normed(transpose(w, 0, 1)), x).to_vector<float>());
}

TEST(SelectKernels, ACopyBackIsNotMade) {
  // What the copy was made of lies as the kernel wants it.
  const Tensor x = contiguous(uniform({2, 8, 6, 6}), MemoryFormat::channels_last);
  const auto f = [](const Tensor& a) {
    const Tensor rows = contiguous(a);
    return max_pool2d(permute(permute(rows, {0, 2, 3, 1}), {0, 3, 1, 2}), {.kernel = {2, 2}});
  };
  auto compiled = compile(f);
  EXPECT_EQ(compiled(x).to_vector<float>(), f(x).to_vector<float>());
  EXPECT_LE(count(plan_of(compiled).graph(), "copy"), 1) << plan_of(compiled).graph().dump();
}

TEST(SelectKernels, AResultThatReplacesATensorIsComputedThere) {
  const Tensor state = uniform({256});
  const Tensor x = uniform({256});
  auto compiled = compile([&](const Tensor& a) { copy_(state, exp(a)); });
  compiled(x);
  const Graph& g = plan_of(compiled).graph();
  EXPECT_THAT(ops_of(g), ElementsAre("exp"));
  EXPECT_THAT(g.dump(), HasSubstr("writes outside"));
  EXPECT_EQ(state.to_vector<float>(), exp(x).to_vector<float>());
  EXPECT_THAT(ops_of(plan_of(compiled).captured().graph), ElementsAre("exp", "copy_into"));
}

TEST(SelectKernels, ALeftOutPassStaysOut) {
  const Tensor w = uniform({64, 48});
  const auto f = [&](const Tensor& a) { return add(normed(transpose(w, 0, 1)), a); };
  set_pass("hoist", false);
  auto compiled = compile(f);
  compiled(uniform({64}));
  EXPECT_EQ(plan_of(compiled).prologue_steps(), 0U);
  set_pass("hoist", true);
}

}  // namespace
}  // namespace mica
