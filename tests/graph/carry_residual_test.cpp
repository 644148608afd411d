// Convolutions whose result is added to something before the activation.
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

/// A convolution that keeps the size of (2, 4, 7, 5).
struct Conv {
  explicit Conv(Device device)
      : weight(uniform({4, 4, 3, 3}, -1, 1, {.device = device})),
        bias(uniform({4}, -1, 1, {.device = device})) {}
  Tensor operator()(const Tensor& x) const { return conv2d(x, weight, bias, {.padding = {1, 1}}); }
  Tensor weight, bias;
};

using Body = std::function<Tensors(const Conv& conv, const Tensor& x, const Tensor& r)>;

Graph captured(const Body& body) {
  const Conv conv(Device::null());
  const TensorSpec spec = TensorSpec::contiguous({2, 4, 7, 5}, DType::f32, Device::null());
  const std::vector<TensorSpec> specs = {spec, spec};
  return capture([&](std::span<const Tensor> in) { return body(conv, in[0], in[1]); }, specs).graph;
}

Graph fused(const Body& body) {
  Graph g = captured(body);
  carry_programs(g);
  return g;
}

TEST(CarryResidual, TakesTheSumInBothOrders) {
  struct Ending {
    Tensor (*f)(const Tensor&);
    const char* name;
  };
  for (const bool first : {true, false})
    for (const Ending& end : {Ending{[](const Tensor& t) { return relu(t); }, "conv2d+add+relu"},
                              Ending{[](const Tensor& t) { return gelu(t); }, "conv2d+add+gelu"},
                              Ending{[](const Tensor& t) { return t; }, "conv2d+add"}}) {
      const Graph g = fused([&](const Conv& conv, const Tensor& x, const Tensor& r) -> Tensors {
        return {end.f(first ? add(conv(x), r) : add(r, conv(x)))};
      });
      ASSERT_THAT(ops_of(g), ElementsAre(end.name));
      EXPECT_EQ(g.nodes[0].in[3], g.inputs[1]);
      EXPECT_EQ(g.nodes[0].out[0], g.outputs[0]);
    }
}

TEST(CarryResidual, OfTwoConvolutionsTheLaterTakesTheSum) {
  const Graph g = fused([](const Conv& conv, const Tensor& x, const Tensor& r) -> Tensors {
    const Tensor a = conv(x);
    return {relu(add(conv(r), a))};
  });
  EXPECT_THAT(ops_of(g), ElementsAre("conv2d", "conv2d+add+relu"));
  EXPECT_EQ(g.nodes[1].in[0], g.inputs[1]);
  EXPECT_EQ(g.nodes[1].in[3], g.nodes[0].out[0]);
}

TEST(CarryResidual, LeavesWhatOthersReadOrWriteTo) {
  EXPECT_THAT(ops_of(fused([](const Conv& conv, const Tensor& x, const Tensor& r) -> Tensors {
                const Tensor y = conv(x);
                return {relu(add(y, r)), y};
              })),
              ElementsAre("conv2d(kept)+add+relu"));
  // The sum is read twice: it is fused, the activation is not.
  EXPECT_THAT(ops_of(fused([](const Conv& conv, const Tensor& x, const Tensor& r) -> Tensors {
                const Tensor sum = add(conv(x), r);
                return {relu(sum), sum};
              })),
              ElementsAre("conv2d+add", "relu"));
  // The weight is another one by the time of the sum.
  EXPECT_THAT(ops_of(fused([](const Conv& conv, const Tensor& x, const Tensor& r) -> Tensors {
                const Tensor y = conv(x);
                fill_(conv.weight, 1);
                return {add(y, exp(r))};
              })),
              Contains("conv2d"));
}

/// Two convolutions with batch norm and a short cut around them.
struct Block {
  explicit Block(Device device)
      : first(device),
        second(device),
        gamma(uniform({4}, 0.5, 2, {.device = device})),
        beta(uniform({4}, -1, 1, {.device = device})),
        mean(uniform({4}, -1, 1, {.device = device})),
        var(uniform({4}, 0.5, 2, {.device = device})) {}
  Tensor operator()(const Tensor& x) const {
    return relu(add(norm(second(relu(norm(first(x))))), x));
  }
  Tensor norm(const Tensor& x) const {
    return batch_norm(x, gamma, beta, mean, var, {.training = false});
  }
  Conv first, second;
  Tensor gamma, beta, mean, var;
};

TEST(CarryResidual, AResidualBlockAtInferenceIsTwoNodes) {
  const Block block(Device::null());
  Graph g =
      captured([&](const Conv&, const Tensor& x, const Tensor&) -> Tensors { return {block(x)}; });
  run_passes(g);
  std::vector<std::string> names = ops_of(g);
  names.erase(names.begin(), names.begin() + g.prologue);
  EXPECT_THAT(names, ElementsAre("conv2d+relu", "conv2d+add+relu"));
  EXPECT_EQ(g.nodes.back().in[3], g.inputs[0]);
}

TEST(CarryResidual, CompiledAndEagerAgree) {
  manual_seed(11);
  const Block block(Device::cpu());
  auto f = compile([&](const Tensor& x) { return block(x); });
  for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last})
    for (const char* kernel : {"conv2d_onednn", "composed"}) {
      const std::vector<Kernel>& list = find_op("anchored").kernels[0];
      if (std::none_of(list.begin(), list.end(),
                       [&](const Kernel& k) { return std::string_view(k.name) == kernel; }))
        continue;
      force_kernel("anchored", kernel);
      const Tensor x = contiguous(uniform({2, 4, 7, 5}, -1, 1), format);
      const Tensor got = f(x);
      // Row-major images are converted at both ends.
      EXPECT_EQ(f.function()->plan()->steps(), format == MemoryFormat::contiguous ? 4U : 2U);
      EXPECT_EQ(got.strides(), block(x).strides());
      EXPECT_THAT(got.to_vector<float>(),
                  testing::Pointwise(testing::FloatNear(5e-5F), block(x).to_vector<float>()));
    }
  force_kernel("anchored", "");
}

}  // namespace
}  // namespace mica
