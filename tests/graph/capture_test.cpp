// What a capture records: on the null device where values do not matter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/graph/passes/passes.h"
#include "mica/graph/plan.h"
#include "mica/mica.h"
#include "tests/graph/ops_of.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const TensorSpec kVector = TensorSpec::contiguous({4}, DType::f32);

Captured capture_one(const std::function<Tensors(const Tensor&)>& f,
                     const TensorSpec& spec = kVector) {
  return capture([&](std::span<const Tensor> in) { return f(in[0]); }, {&spec, 1});
}

TEST(Capture, RecordsCallsInOrderAndComputesNothing) {
  const TensorSpec spec = TensorSpec::contiguous({1000000, 1000000}, DType::f32);  // 4 TB
  const Captured c =
      capture_one([](const Tensor& x) -> Tensors { return {relu(add(x, neg(x)))}; }, spec);
  EXPECT_THAT(ops_of(c.graph), ElementsAre("neg", "add", "relu"));
  EXPECT_EQ(c.results, 1U);
  EXPECT_EQ(c.graph.inputs.size(), 1U);
  EXPECT_EQ(c.graph[c.graph.outputs[0]].spec.shape, spec.shape);
  EXPECT_EQ(current_recorder(), nullptr);
}

TEST(Capture, WorksWithoutHardware) {
  const TensorSpec spec = TensorSpec::contiguous({256, 1, 28, 28}, DType::f32, Device::null());
  const TensorOptions null{.device = Device::null()};
  const Tensor w = zeros({20, 1, 5, 5}, null).set_requires_grad();
  const Captured c = capture_one(
      [&](const Tensor& x) -> Tensors {
        const Tensor loss = mean(max_pool2d(relu(conv2d(x, w))));
        loss.backward();
        const NoGrad guard;
        sgd_update(zeros({}, null), {w}, {w.grad()}, {}, {});
        return {loss};
      },
      spec);
  EXPECT_EQ(c.device, Device::null());
  EXPECT_THAT(ops_of(c.graph), testing::Contains("conv2d_wgrad"));
  EXPECT_THAT(ops_of(c.graph), testing::Not(testing::Contains("conv2d_dgrad")));
  const Plan plan(capture_one(
      [&](const Tensor& x) -> Tensors { return {cumsum(conv2d(x, w.detach()), 3)}; }, spec));
  EXPECT_EQ(plan.steps(), 2U);
  EXPECT_GE(plan.planned_bytes(), plan.live_bytes());
  EXPECT_GE(plan.live_bytes(), size_t{256} * 20 * 24 * 24 * 4);
}

TEST(Capture, TensorsFromOutsideAreOneValueEach) {
  const Tensor w = ones({4});
  const Captured c = capture_one([&](const Tensor& x) -> Tensors { return {mul(add(x, w), w)}; });
  int externals = 0;
  for (const Value& v : c.graph.values) externals += v.kind == Value::Kind::external;
  EXPECT_EQ(externals, 1);
  EXPECT_THAT(c.graph.dump(), HasSubstr("= external  f32[4]"));
  EXPECT_THAT(c.graph.dump(), HasSubstr("= input  f32[4]"));
  EXPECT_THAT(c.graph.dump(), HasSubstr("mul("));
}

TEST(Capture, NumbersAreConstants) {
  const Captured c = capture_one([](const Tensor& x) -> Tensors { return {mul(x, 0.5)}; });
  ASSERT_EQ(c.graph.nodes.size(), 1U);
  EXPECT_EQ(c.graph[c.graph.nodes[0].in[1]].tensor.item(), 0.5);
}

TEST(DeadNodes, GoUnlessTheyHaveAnEffect) {
  const Tensor state = zeros({4});
  Captured c = capture_one([&](const Tensor& x) -> Tensors {
    neg(neg(x));              // nobody reads it
    copy_(state, mul(x, 2));  // writes to the outside
    const Tensor copy = clone(x);
    copy_(copy, relu(x));  // writes to a copy that nobody reads
    return {add(x, x)};
  });
  remove_dead_nodes(c.graph);
  EXPECT_THAT(ops_of(c.graph), ElementsAre("mul", "copy_into", "add"));
}

TEST(DeadNodes, ADeadRandomOpStillConsumesItsCounters) {
  Captured c = capture_one([](const Tensor& x) -> Tensors {
    dropout(x, 0.5);
    return {dropout(x, 0.5)};
  });
  remove_dead_nodes(c.graph);
  EXPECT_THAT(ops_of(c.graph), ElementsAre("rng_take", "rng_take", "dropout"));
}

TEST(Mutation, AWriteIsANewVersion) {
  const Tensor w = ones({4});
  const Captured c = capture_one([&](const Tensor& x) -> Tensors {
    const Tensor before = mul(x, w);  // node 0 reads
    copy_(w, x);                      // node 1 writes
    return {before, add(x, w)};       // node 2 reads the new version
  });
  const Graph& g = c.graph;
  ASSERT_THAT(ops_of(g), ElementsAre("mul", "copy_into", "add"));
  const ValueId old_version = g.nodes[0].in[1];
  const ValueId new_version = g.nodes[2].in[1];
  EXPECT_NE(old_version, new_version);
  EXPECT_EQ(g.nodes[1].out[0], new_version);
  EXPECT_TRUE(g[old_version].superseded);
  EXPECT_FALSE(g[new_version].superseded);
  EXPECT_EQ(g.root(new_version), old_version);
  ASSERT_EQ(c.written.size(), 1U);
  EXPECT_EQ(c.written[0].storage(), w.storage());
}

TEST(Mutation, OfAComputedTensor) {
  const Captured c = capture_one([](const Tensor& x) -> Tensors {
    const Tensor y = neg(x);
    const Tensor z = mul(y, y);
    fill_(y, 3);
    return {y, z};
  });
  EXPECT_TRUE(c.written.empty());
  const Graph& g = c.graph;
  EXPECT_EQ(g.root(g.outputs[0]), g.nodes[0].out[0]);
}

TEST(Mutation, ThroughAViewIsANewVersionOfTheWhole) {
  const Tensor x1 = ones({1});
  const Captured c = capture_one([&](const Tensor& x) -> Tensors {
    const Tensor y = neg(x);                 // node 0
    const Tensor view = reshape(y, {2, 2});  // node 1
    copy_(slice(y, 0, 1, 3), x1);            // nodes 2 and 3
    return {y, view};
  });
  const Graph& g = c.graph;
  ASSERT_THAT(ops_of(g), ElementsAre("neg", "reshape", "slice", "copy_into"));
  for (const ValueId id : g.outputs) {
    EXPECT_EQ(g[id].node, 3);
    EXPECT_EQ(g.root(id), g.nodes[0].out[0]);
  }
}

TEST(Mutation, OfWhatBackwardSavedIsAnError) {
  const Tensor w = ones({4}).set_requires_grad();
  const Tensor scale = ones({4});
  expect_error<Error>("modified after", [&] {
    capture_one([&](const Tensor& x) -> Tensors {
      const Tensor loss = sum(mul(mul(w, scale), x));
      fill_(scale, 2);
      loss.backward();
      return {loss};
    });
  });
  EXPECT_FALSE(w.grad().defined());
}

TEST(Capture, HostReadsAreRefusedWithTheReason) {
  const auto read = [](auto&& f) {
    expect_error<Unsupported>(
        "was asked for while a graph is captured: it is computed when the graph runs. Return it "
        "from "
        "the compiled function and read it afterwards",
        [&] {
          capture_one([&](const Tensor& x) -> Tensors {
            f(neg(x));
            return {x};
          });
        });
  };
  read([](const Tensor& t) { (void)sum(t).item(); });
  read([](const Tensor& t) { (void)t.data(); });
  expect_error<Unsupported>("to: a copy from cpu to null cannot be part of a captured graph", [] {
    capture_one([](const Tensor& x) -> Tensors { return {to(x, Device::null())}; });
  });
  EXPECT_EQ(current_recorder(), nullptr);
}

TEST(Capture, PrintingATracedTensorIsHarmless) {
  capture_one([](const Tensor& x) -> Tensors {
    EXPECT_EQ(to_string(neg(x)), "tensor(<f32[4]>)");
    return {x};
  });
}

TEST(Capture, AGraphHasOneDevice) {
  const Tensor elsewhere = zeros({4}, {.device = Device::null()});
  expect_error<Unsupported>("on null in a graph captured on cpu; a graph has one device", [&] {
    capture_one([&](const Tensor& x) -> Tensors { return {neg(x), neg(elsewhere)}; });
  });
}

TEST(Capture, AnExceptionRestoresGradientsAndLeavesNoRecorder) {
  const Tensor w = ones({4}).set_requires_grad();
  const Tensor v = ones({4}).set_requires_grad();
  const Tensor before = full({4}, 7);
  w.set_grad(before);
  expect_error<ShapeError>("add: shapes", [&] {
    capture_one([&](const Tensor& x) -> Tensors {
      w.set_grad({});
      sum(mul(mul(w, v), x)).backward();
      EXPECT_TRUE(w.grad().is_traced());
      return {add(x, ones({3}))};
    });
  });
  EXPECT_EQ(w.grad().impl(), before.impl());
  EXPECT_FALSE(v.grad().defined());
  EXPECT_EQ(current_recorder(), nullptr);
  EXPECT_EQ(current_grad_watcher(), nullptr);
  EXPECT_EQ(sum(add(ones({2}), ones({2}))).item(), 4);
}

TEST(Capture, AStrayTracedTensorIsRecognised) {
  Tensor stray;
  capture_one([&](const Tensor& x) -> Tensors {
    stray = neg(x);
    return {x};
  });
  expect_error<Unsupported>(
      "a tensor made while another graph was captured (f32[4]) was used; it never had a value",
      [&] { capture_one([&](const Tensor& x) -> Tensors { return {add(x, stray)}; }); });
  expect_error<Unsupported>("was asked for while a graph is captured",
                            [&] { (void)sum(stray).item(); });
}

TEST(Capture, ResultsMustBeThere) {
  expect_error<Error>("compile: the function returned an undefined tensor",
                      [] { capture_one([](const Tensor&) -> Tensors { return {Tensor()}; }); });
}

TEST(Capture, NestedDirectlyIsRefused) {
  expect_error<Unsupported>("while another is captured", [] {
    capture_one([](const Tensor& x) -> Tensors {
      capture_one([](const Tensor& y) -> Tensors { return {y}; });
      return {x};
    });
  });
  EXPECT_EQ(current_recorder(), nullptr);
}

}  // namespace
}  // namespace mica
