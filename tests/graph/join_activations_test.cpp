// Activations written as what they are made of become one call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "mica/graph/passes/passes.h"
#include "mica/graph/plan.h"
#include "mica/mica.h"
#include "tests/graph/ops_of.h"

namespace mica {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

using Body = std::function<Tensor(const Tensor&)>;

std::vector<std::string> joined(const Body& body) {
  const TensorSpec x = TensorSpec::contiguous({4, 6}, DType::f32, Device::null());
  Graph graph =
      capture([&](std::span<const Tensor> in) -> Tensors { return {body(in[0])}; }, {&x, 1}).graph;
  join_patterns(graph);
  remove_dead_nodes(graph);
  return ops_of(graph);
}

struct Case {
  const char* name;
  Body body;
};

void expect_all(const std::vector<Case>& cases, const char* op) {
  manual_seed(1);
  const Tensor x = uniform({40, 60}, -5, 5);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    EXPECT_THAT(joined(c.body), ElementsAre(op));
    auto f = compile(c.body);
    EXPECT_THAT(f(x).to_vector<float>(),
                testing::Pointwise(testing::FloatNear(3e-6F), c.body(x).to_vector<float>()));
  }
}

TEST(JoinActivations, Silu) {
  expect_all({{"x first", [](const Tensor& x) { return mul(x, sigmoid(x)); }},
              {"the gate first", [](const Tensor& x) { return mul(sigmoid(x), x); }}},
             "silu");
}

TEST(JoinActivations, Hardswish) {
  const auto gate = [](const Tensor& x) { return clamp(add(x, 3.0), 0.0, 6.0); };
  expect_all({{"divided", [&](const Tensor& x) { return div(mul(x, gate(x)), 6.0); }},
              {"the gate first", [&](const Tensor& x) { return div(mul(gate(x), x), 6.0); }},
              {"by hardsigmoid", [](const Tensor& x) { return mul(x, hardsigmoid(x)); }}},
             "hardswish");
}

TEST(JoinActivations, Gelu) {
  const auto curve = [](const Tensor& x) { return add(erf(div(x, std::sqrt(2.0))), 1.0); };
  const auto scaled = [](const Tensor& x) { return add(erf(mul(x, std::sqrt(0.5))), 1.0); };
  expect_all({{"halved at the end", [&](const Tensor& x) { return mul(mul(x, curve(x)), 0.5); }},
              {"halved first", [&](const Tensor& x) { return mul(mul(x, 0.5), curve(x)); }},
              {"the curve first", [&](const Tensor& x) { return mul(mul(scaled(x), x), 0.5); }}},
             "gelu");
}

TEST(JoinActivations, ASquareIsNoPower) {
  expect_all({{"by a number", [](const Tensor& x) { return pow(x, 2.0); }}}, "square");
}

TEST(JoinActivations, LeavesWhatIsSomethingElse) {
  EXPECT_THAT(joined([](const Tensor& x) { return mul(neg(x), sigmoid(x)); }),
              UnorderedElementsAre("neg", "sigmoid", "mul"));
  EXPECT_THAT(
      joined([](const Tensor& x) { return div(mul(x, clamp(add(x, 3.0), 0.0, 6.0)), 5.0); }),
      ElementsAre("add", "clamp", "mul", "div"));
  EXPECT_THAT(joined([](const Tensor& x) { return mul(mul(x, add(erf(div(x, 1.5)), 1.0)), 0.5); }),
              ElementsAre("div", "erf", "add", "mul", "mul"));
  // The gate is asked for.
  const TensorSpec x = TensorSpec::contiguous({4, 6}, DType::f32, Device::null());
  Graph graph = capture(
                    [](std::span<const Tensor> in) -> Tensors {
                      const Tensor gate = sigmoid(in[0]);
                      return {mul(in[0], gate), gate};
                    },
                    {&x, 1})
                    .graph;
  join_patterns(graph);
  EXPECT_THAT(ops_of(graph), ElementsAre("sigmoid", "mul"));
}

}  // namespace
}  // namespace mica
