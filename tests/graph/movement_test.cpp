// Permutations that cancel around elementwise calls, and casts that move fewer bytes.
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

using Body = std::function<Tensors(const Tensor& a, const Tensor& b)>;

/// Of two arguments (3, 4, 5).
Graph rewritten(const Body& body, void (*pass)(Graph&), DType dtype = DType::f32) {
  const TensorSpec spec = TensorSpec::contiguous({3, 4, 5}, dtype, Device::null());
  const std::vector<TensorSpec> specs = {spec, spec};
  Graph g = capture([&](std::span<const Tensor> in) { return body(in[0], in[1]); }, specs).graph;
  pass(g);
  remove_identities(g);
  remove_dead_nodes(g);
  for (size_t i = 0; i < g.nodes.size(); ++i)
    EXPECT_EQ(g[g.nodes[i].out[0]].node, static_cast<int>(i));
  return g;
}

/// Compiled without the other passes that would hide a mistake.
void expect_same(const Body& body, DType dtype = DType::f32) {
  manual_seed(31);
  const std::vector<Tensor> in = {cast(uniform({3, 4, 5}, -2, 2), dtype),
                                  cast(uniform({3, 4, 5}, -2, 2), dtype)};
  const std::vector<TensorSpec> specs = {in[0].spec(), in[1].spec()};
  Captured c = capture([&](std::span<const Tensor> args) { return body(args[0], args[1]); }, specs);
  cancel_permutations(c.graph);
  move_casts(c.graph);
  Plan plan(std::move(c));
  const Tensors got = plan.run(in);
  const Tensors want = body(in[0], in[1]);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].shape(), want[i].shape());
    EXPECT_EQ(cast(got[i], DType::f64).to_vector<double>(),
              cast(want[i], DType::f64).to_vector<double>());
  }
}

Tensors there_and_back(const Tensor& a, const Tensor&) {
  return {contiguous(permute(relu(permute(a, {2, 0, 1})), {1, 2, 0}))};
}

Tensors of_two(const Tensor& a, const Tensor& b) {
  const Tensor sum = mul(add(permute(a, {1, 2, 0}), exp(permute(b, {1, 2, 0}))), 3.0);
  return {neg(permute(sum, {2, 0, 1}))};
}

TEST(Permutations, CancelAroundElementwiseCalls) {
  const Graph g = rewritten(there_and_back, cancel_permutations);
  EXPECT_THAT(ops_of(g), ElementsAre("relu"));
  EXPECT_EQ(g[g.outputs[0]].spec.shape, (Shape{3, 4, 5}));
  EXPECT_TRUE(g[g.outputs[0]].spec.is_contiguous());
  EXPECT_THAT(ops_of(rewritten(of_two, cancel_permutations)), Not(Contains("permute")));
  expect_same(there_and_back);
  expect_same(of_two);
}

TEST(Permutations, StayWhereTheyDoNotCancel) {
  const auto unchanged = [](const Body& body) {
    EXPECT_THAT(ops_of(rewritten(body, cancel_permutations)), Contains("permute"));
    expect_same(body);
  };
  // Not back.
  unchanged([](const Tensor& a, const Tensor&) -> Tensors {
    return {contiguous(permute(relu(permute(a, {2, 0, 1})), {2, 0, 1}))};
  });
  // An operand in another order.
  unchanged([](const Tensor& a, const Tensor& b) -> Tensors {
    const Tensor other = reshape(b, {5, 3, 4});
    return {neg(permute(add(permute(a, {2, 0, 1}), other), {1, 2, 0}))};
  });
  // Somebody needs what is between.
  unchanged([](const Tensor& a, const Tensor&) -> Tensors {
    const Tensor y = relu(permute(a, {2, 0, 1}));
    return {neg(permute(y, {1, 2, 0})), y};
  });
  // It would lie otherwise for one who sees that.
  unchanged([](const Tensor& a, const Tensor&) -> Tensors {
    return {permute(relu(permute(a, {2, 0, 1})), {1, 2, 0})};
  });
}

int64_t cast_elements(const Graph& g) {
  int64_t n = 0;
  for (const Node& node : g.nodes)
    if (std::string_view(node.op->name) == "copy") n += g[node.out[0]].spec.numel();
  return n;
}

TEST(MoveCasts, AfterAViewOfLess) {
  const Body body = [](const Tensor& a, const Tensor&) -> Tensors {
    return {exp(slice(cast(a, DType::f64), 1, 1, 3))};
  };
  const Graph g = rewritten(body, move_casts);
  EXPECT_THAT(ops_of(g), ElementsAre("slice", "copy", "exp"));
  EXPECT_EQ(cast_elements(g), 3 * 2 * 5);
  expect_same(body);
  // The whole is needed too.
  const Graph both = rewritten(
      [](const Tensor& a, const Tensor&) -> Tensors {
        const Tensor wide = cast(a, DType::f64);
        return {exp(slice(wide, 1, 1, 3)), wide};
      },
      move_casts);
  EXPECT_THAT(ops_of(both), ElementsAre("copy", "slice", "exp"));
}

TEST(MoveCasts, BeforeAViewOfMore) {
  const Body body = [](const Tensor& a, const Tensor& b) -> Tensors {
    const Tensor row = slice(a, 0, 0, 1);
    return {mul(cast(expand(row, {3, 4, 5}), DType::f64), cast(b, DType::f64))};
  };
  const Graph g = rewritten(body, move_casts);
  EXPECT_EQ(cast_elements(g), 4 * 5 + 3 * 4 * 5);
  expect_same(body);
}

TEST(MoveCasts, ThroughAJoining) {
  const Body widen = [](const Tensor& a, const Tensor& b) -> Tensors {
    return {concat({cast(a, DType::f32), cast(b, DType::f32)}, 1)};
  };
  EXPECT_THAT(ops_of(rewritten(widen, move_casts, DType::f16)), ElementsAre("concat", "copy"));
  expect_same(widen, DType::f16);
  const Body narrow = [](const Tensor& a, const Tensor& b) -> Tensors {
    return {cast(concat({a, b}, 1), DType::f16)};
  };
  EXPECT_THAT(ops_of(rewritten(narrow, move_casts)), ElementsAre("copy", "copy", "concat"));
  expect_same(narrow);
  // As they are they move less.
  EXPECT_THAT(ops_of(rewritten(narrow, move_casts, DType::bf16)), ElementsAre("concat", "copy"));
  EXPECT_THAT(ops_of(rewritten(widen, move_casts, DType::f64)),
              ElementsAre("copy", "copy", "concat"));
}

TEST(MoveCasts, LeavesWhatIsWrittenTo) {
  const Body body = [](const Tensor& a, const Tensor&) -> Tensors {
    const Tensor total = zeros({3, 4, 5}, {.device = a.device()});
    const Tensor part = slice(cast(total, DType::f64), 1, 1, 3);
    const Tensor before = exp(part);
    add_(total, a);
    return {before, exp(slice(cast(total, DType::f64), 1, 1, 3))};
  };
  expect_same(body);
}

}  // namespace
}  // namespace mica
