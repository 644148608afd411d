// What a plan computes once and keeps: values made of tensors that the graph never writes to.
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
using testing::HasSubstr;
using testing::Not;

using Body = std::function<Tensors(std::span<const Tensor>)>;

const TensorOptions kNull{.device = Device::null()};

std::vector<std::string> kept_ops(const Graph& graph) {
  std::vector<std::string> names = ops_of(graph);
  names.resize(static_cast<size_t>(graph.prologue));
  return names;
}

Graph captured(const Shape& shape, const Body& body, const std::vector<void (*)(Graph&)>& passes) {
  const TensorSpec spec = TensorSpec::contiguous(shape, DType::f32, Device::null());
  Graph graph = capture(body, {&spec, 1}).graph;
  for (const auto& pass : passes) pass(graph);
  return graph;
}

TEST(Hoist, MovesWhatDependsOnUnwrittenTensors) {
  const Tensor w = zeros({6, 4}, kNull);
  const Graph g = captured({3, 6},
                           [&](std::span<const Tensor> in) -> Tensors {
                             const Tensor y = exp(in[0]);
                             return {matmul(y, neg(cast(cast(w, DType::f16), DType::f32)))};
                           },
                           {hoist});
  EXPECT_THAT(ops_of(g), ElementsAre("copy", "copy", "neg", "exp", "matmul"));
  EXPECT_EQ(g.prologue, 3);
  EXPECT_THAT(g.dump(), HasSubstr("neg(%4) {}  f32[6, 4] on null  kept"));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(g[g.nodes[static_cast<size_t>(i)].out[0]].node, i);
}

TEST(Hoist, LeavesWhatTheGraphWritesTo) {
  const Tensor w = zeros({4}, kNull);
  const Graph g = captured({4},
                           [&](std::span<const Tensor> in) -> Tensors {
                             const Tensor before = neg(w);
                             copy_(w, in[0]);
                             return {add(before, exp(w))};
                           },
                           {hoist});
  EXPECT_EQ(g.prologue, 0);
}

TEST(Hoist, LeavesWhatIsWrittenToAndRandomNumbers) {
  const Graph g = captured({4},
                           [&](std::span<const Tensor> in) -> Tensors {
                             const Tensor total = zeros({4}, kNull);
                             add_(total, in[0]);
                             return {total, dropout(zeros({4}, kNull), 0.5)};
                           },
                           {hoist});
  EXPECT_THAT(kept_ops(g), ElementsAre("full"));
}

TEST(Hoist, KeepsNothingLarge) {
  const Tensor small = zeros({1, 1100}, kNull);
  const Graph g =
      captured({1100, 1100},
               [&](std::span<const Tensor> in) -> Tensors {
                 const Tensor many = add(small, transpose(small, 0, 1));
                 return {add(in[0], neg(many)), add(in[0], full({1100, 1100}, 2, kNull))};
               },
               {hoist});
  EXPECT_EQ(g.prologue, 1);  // the view
}

TEST(Hoist, KeepsATableThatIsComputedAndNoNumber) {
  const Tensor small = zeros({1, 300}, kNull);
  const Graph g = captured({300, 300},
                           [&](std::span<const Tensor> in) -> Tensors {
                             const Tensor many = add(small, transpose(small, 0, 1));
                             return {add(in[0], neg(many)), add(in[0], full({300, 300}, 2, kNull))};
                           },
                           {hoist});
  EXPECT_THAT(kept_ops(g), ElementsAre("permute", "add", "neg"));
}

TEST(Hoist, ChainsAreFusedOnEachSide) {
  const Tensor w = zeros({8, 8}, kNull);
  const Graph g = captured({8, 8},
                           [&](std::span<const Tensor> in) -> Tensors {
                             const Tensor v = exp(neg(w));
                             return {relu(mul(in[0], v)), v};
                           },
                           {hoist, fuse_elementwise, remove_dead_nodes});
  EXPECT_THAT(ops_of(g), ElementsAre("fused", "fused"));
  EXPECT_EQ(g.prologue, 1);
}

TEST(Prologue, RunsAgainWhenATensorWasWrittenTo) {
  manual_seed(1);
  const Tensor w = uniform({5, 7}, -1, 1);
  const Tensor x = uniform({3, 5}, -1, 1);
  const auto body = [&](const Tensor& in) { return matmul(in, exp(w)); };
  auto f = compile(body);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f(x).to_vector<float>(), body(x).to_vector<float>());
  const Plan& plan = *f.function()->plan();
  EXPECT_EQ(plan.steps(), 1U);
  EXPECT_EQ(plan.prologue_steps(), 1U);
  EXPECT_GE(plan.kept_bytes(), 5U * 7 * 4);
  EXPECT_THAT(plan.kernels()[0], HasSubstr("exp: "));
  fill_(w, 0.5);
  EXPECT_EQ(f(x).to_vector<float>(), body(x).to_vector<float>());
  // By a function that is compiled itself.
  auto scale = compile([&](const Tensor& by) { copy_(w, mul(w, by)); });
  scale(scalar(3));
  EXPECT_EQ(f(x).to_vector<float>(), body(x).to_vector<float>());
  EXPECT_EQ(f.function()->captures(), 1);
}

TEST(Prologue, IsRunOnlyThen) {
  // A write that no version tells of is not seen: so nothing was computed again.
  const Tensor w = ones({4});
  auto f = compile([&](const Tensor& x) { return add(x, exp(exp(w))); });
  const Tensor x = zeros({4});
  const auto before = f(x).to_vector<float>();
  static_cast<float*>(w.data())[0] = 7;
  EXPECT_EQ(f(x).to_vector<float>(), before);
  w.storage()->bump_version();
  EXPECT_NE(f(x).to_vector<float>(), before);
}

TEST(Prologue, RunsEveryTimeForMemoryThatWasHandedOut) {
  const Tensor w = ones({4});
  const auto body = [&](const Tensor& x) { return add(x, exp(exp(w))); };
  auto f = compile(body);
  const Tensor x = zeros({4});
  f(x);
  auto* held = w.data_as<float>();
  for (const float value : {0.5F, 0.25F}) {
    held[0] = value;
    EXPECT_EQ(f(x).to_vector<float>(), body(x).to_vector<float>());
  }
  EXPECT_EQ(f.function()->plan()->prologue_steps(), 1U);
  // A view has the same memory.
  EXPECT_TRUE(reshape(w, {2, 2}).storage()->is_handed_out());
  EXPECT_FALSE(x.storage()->is_handed_out());
}

TEST(Prologue, ItsResultsAreNobodyElses) {
  manual_seed(2);
  const Tensor w = uniform({64}, -1, 1);
  const auto body = [&](const Tensor& in) -> Tensors {
    const Tensor v = exp(w);
    const Tensor y = mul(in, v);
    return {v, relu(y), transpose(reshape(v, {8, 8}), 0, 1)};
  };
  auto f = compile(body);
  const Tensor x = uniform({64}, -1, 1);
  Tensors first = f(x);
  fill_(first[0], 0);
  auto other = compile([](const Tensor& in) { return exp(neg(exp(exp(exp(in))))); });
  other(x);
  for (int i = 0; i < 2; ++i) {
    const Tensors again = f(x);
    const Tensors eager = body(x);
    for (size_t k = 0; k < eager.size(); ++k)
      EXPECT_EQ(again[k].to_vector<float>(), eager[k].to_vector<float>());
  }
}

TEST(Prologue, MayBeAll) {
  const Tensor w = ones({4});
  auto f = compile([&](const Tensor&) { return neg(w); });
  EXPECT_EQ(f(zeros({1})).to_vector<float>(), (std::vector<float>{-1, -1, -1, -1}));
  EXPECT_EQ(f.function()->plan()->steps(), 0U);
  fill_(w, 2);
  EXPECT_EQ(f(zeros({1})).to_vector<float>(), (std::vector<float>{-2, -2, -2, -2}));
}

TEST(Prologue, TakesTheCopiesThatKernelsWant) {
  manual_seed(3);
  const Tensor w = transpose(uniform({7, 5}, -1, 1), 0, 1);
  auto f = compile([&](const Tensor& x) { return softmax(add(x, softmax(w, 0)), 1); });
  const Tensor x = uniform({5, 7}, -1, 1);
  f(x);
  fill_(w, 1);
  EXPECT_EQ(f(x).to_vector<float>(), softmax(add(x, softmax(w, 0)), 1).to_vector<float>());
}

TEST(Prologue, TrainingStepsHaveTheSameBits) {
  manual_seed(4);
  const Tensor x = uniform({16, 12}, -1, 1);
  const auto train = [&](bool compiled) {
    manual_seed(5);
    const Tensor frozen = normal({12, 12}, 0, 0.3);
    const Tensor w = normal({12, 12}, 0, 0.3).set_requires_grad();
    const Tensor lr = scalar(0.1);
    const Body step = [&](std::span<const Tensor> in) -> Tensors {
      const Tensor h = relu(matmul(in[0], sigmoid(mul(frozen, 2.0))));
      const Tensor loss = mean(square(sub(matmul(h, w), in[0])));
      loss.backward();
      const NoGrad guard;
      sgd_update(lr, {w}, {w.grad()}, {}, {});
      w.set_grad({});
      return {loss};
    };
    CompiledFunction f(step);
    for (int i = 0; i < 4; ++i) {
      compiled ? f({&x, 1}) : step({&x, 1});
      if (i == 1) fill_(frozen, 0.25);
    }
    return w.to_vector<float>();
  };
  set_deterministic(true);
  EXPECT_EQ(train(true), train(false));
  set_deterministic(false);
}

/// A layer and the batch norm after it.
struct Folded {
  explicit Folded(Device device, bool biased = true, bool affine = true)
      : weight(uniform({6, 3, 3, 3}, -1, 1, {.device = device})),
        bias(biased ? uniform({6}, -1, 1, {.device = device}) : Tensor()),
        gamma(affine ? uniform({6}, 0.5, 2, {.device = device}) : Tensor()),
        beta(affine ? uniform({6}, -1, 1, {.device = device}) : Tensor()),
        mean(uniform({6}, -1, 1, {.device = device})),
        var(uniform({6}, 0.5, 2, {.device = device})) {}

  Tensor operator()(const Tensor& x, bool training = false) const {
    const Tensor y = conv2d(x, weight, bias, {.padding = {1, 1}});
    return batch_norm(y, gamma, beta, mean, var, {.training = training});
  }
  Tensor weight, bias, gamma, beta, mean, var;
};

TEST(FoldBatchNorm, MakesItPartOfTheConvolution) {
  const Folded layer(Device::null());
  const Body body = [&](std::span<const Tensor> in) -> Tensors { return {relu(layer(in[0]))}; };
  const Graph g = captured({2, 3, 8, 8}, body, {fold_batch_norm, hoist});
  EXPECT_THAT(ops_of(g), Not(Contains("batch_norm")));
  std::vector<std::string> run = ops_of(g);
  run.erase(run.begin(), run.begin() + g.prologue);
  EXPECT_THAT(run, ElementsAre("conv2d", "relu"));
  const Node& conv = g.nodes[static_cast<size_t>(g.prologue)];
  EXPECT_EQ(g[conv.in[1]].spec.shape, (Shape{6, 3, 3, 3}));
  EXPECT_EQ(g[conv.in[2]].spec.shape, (Shape{6}));
  EXPECT_EQ(g[conv.out[0]].node, g.prologue);
  EXPECT_EQ(g.nodes.back().in[0], conv.out[0]);
}

TEST(FoldBatchNorm, LeavesTrainingAndWhatIsSharedAlone) {
  const Folded layer(Device::null());
  const auto ops = [](const Body& body) {
    return ops_of(captured({2, 3, 8, 8}, body, {fold_batch_norm, remove_dead_nodes}));
  };
  EXPECT_THAT(ops([&](std::span<const Tensor> in) -> Tensors { return {layer(in[0], true)}; }),
              ElementsAre("conv2d", "batch_norm"));
  EXPECT_THAT(
      ops([&](std::span<const Tensor> in) -> Tensors {
        const Tensor y = conv2d(in[0], layer.weight, layer.bias);
        return {batch_norm(y, layer.gamma, layer.beta, layer.mean, layer.var, {.training = false}),
                y};
      }),
      ElementsAre("conv2d", "batch_norm"));
  EXPECT_THAT(ops([&](std::span<const Tensor> in) -> Tensors {
                const Tensor y = layer(in[0]);
                fill_(layer.gamma, 1);
                return {y};
              }),
              Contains("batch_norm"));
}

TEST(FoldBatchNorm, ComputesTheSame) {
  manual_seed(6);
  const Tensor x = uniform({2, 3, 9, 7}, -1, 1);
  for (const bool biased : {true, false})
    for (const bool affine : {true, false})
      for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
        const Folded layer(Device::cpu(), biased, affine);
        const auto body = [&](const Tensor& in) { return relu(layer(in)); };
        auto f = compile(body);
        const Tensor in = contiguous(x, format);
        const auto expect_same = [&] {
          const Tensor got = f(in);
          EXPECT_EQ(got.strides(), body(in).strides());
          EXPECT_THAT(got.to_vector<float>(),
                      testing::Pointwise(testing::FloatNear(2e-5F), body(in).to_vector<float>()));
        };
        expect_same();
        expect_same();
        for (const std::string& kernel : f.function()->plan()->kernels())
          EXPECT_THAT(kernel, Not(HasSubstr("batch_norm")));
        // Everything it was folded from may change.
        for (const Tensor& t : {layer.weight, layer.bias, layer.gamma, layer.beta, layer.mean})
          if (t.defined()) copy_(t, add(t, 0.25));
        copy_(layer.var, mul(layer.var, 2.0));
        expect_same();
        EXPECT_EQ(f.function()->captures(), 1);
      }
}

TEST(FoldBatchNorm, OfALinearLayer) {
  manual_seed(7);
  nn::Sequential net(nn::Linear({.in = 5, .out = 8}), nn::BatchNorm1d({.features = 8}), nn::ReLU());
  const Tensor x = uniform({6, 5}, -1, 1);
  for (int i = 0; i < 3; ++i) net(x);
  net.eval();
  const NoGrad guard;
  auto f = compile([&](const Tensor& in) { return net(in); });
  EXPECT_THAT(f(x).to_vector<float>(),
              testing::Pointwise(testing::FloatNear(1e-5F), net(x).to_vector<float>()));
  for (const std::string& kernel : f.function()->plan()->kernels())
    EXPECT_THAT(kernel, Not(HasSubstr("batch_norm")));
  // In training the statistics are the batch's: another plan.
  net.train();
  f(x);
  EXPECT_THAT(f.function()->plan()->kernels(), Contains(HasSubstr("batch_norm")));
  net.eval();
  EXPECT_THAT(f(x).to_vector<float>(),
              testing::Pointwise(testing::FloatNear(1e-5F), net(x).to_vector<float>()));
}

}  // namespace
}  // namespace mica
