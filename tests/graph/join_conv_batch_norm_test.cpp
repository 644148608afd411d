// Convolutions that take the sums of the batch norms beside them: which calls become one, on the
// null device; and that the values stay, on the CPU with the kernels made of the single ops.
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

constexpr int64_t kChannels = 6;

struct Norm {
  explicit Norm(Device device)
      : weight(uniform({kChannels}, 0.5, 1.5, {.device = device}).set_requires_grad()),
        bias(uniform({kChannels}, -1, 1, {.device = device}).set_requires_grad()),
        mean(zeros({kChannels}, {.device = device})),
        var(ones({kChannels}, {.device = device})) {}

  Tensor operator()(const Tensor& x, bool training = true) const {
    return batch_norm(x, weight, bias, mean, var, {.training = training});
  }
  Tensor weight, bias, mean, var;
};

Tensor window(int64_t size, Device device) {
  return normal({kChannels, kChannels, size, size}, 0, 0.3, {.device = device}).set_requires_grad();
}

std::vector<std::string> joined(const Body& body) {
  const std::vector<TensorSpec> specs = {
      TensorSpec::contiguous({4, kChannels, 5, 5}, DType::f32, Device::null())};
  Graph graph = capture(body, specs).graph;
  for (const auto pass : {join_patterns, carry_programs, remove_dead_nodes}) pass(graph);
  return ops_of(graph);
}

TEST(JoinConvBatchNorm, WithAWindowOfOnePixel) {
  const Norm norm(Device::null());
  const Tensor one = window(1, Device::null());
  const Tensor three = window(3, Device::null());
  EXPECT_THAT(joined([&](std::span<const Tensor> in) -> Tensors {
                return {relu(norm(conv2d(in[0], one)))};
              }),
              ElementsAre("conv2d_batch_norm+relu"));
  EXPECT_THAT(joined([&](std::span<const Tensor> in) -> Tensors {
                return {relu(norm(conv2d(in[0], three)))};
              }),
              ElementsAre("conv2d", "batch_norm+relu"));
  EXPECT_THAT(joined([&](std::span<const Tensor> in) -> Tensors {
                return {norm(conv2d(in[0], one, {}, {.stride = 2}))};
              }),
              ElementsAre("conv2d", "batch_norm"));
  EXPECT_THAT(joined([&](std::span<const Tensor> in) -> Tensors {
                return {norm(conv2d(in[0], one), false)};
              }),
              ElementsAre("conv2d", "batch_norm"));
}

TEST(JoinConvBatchNorm, BelowAResidualThatTakesEachSecondPixel) {
  const Norm norm(Device::null());
  const Tensor one = window(1, Device::null());
  const Tensor other = window(1, Device::null());
  const Body body = [&](std::span<const Tensor> in) -> Tensors {
    const Tensor x = in[0].detach().set_requires_grad();
    const Tensor y = relu(add(norm(x), in[0]));
    const Tensor a = sum(square(conv2d(y, one)));
    const Tensor b = sum(square(conv2d(y, other, {}, {.stride = 2})));
    return {grad({add(a, b)}, {x})[0]};
  };
  const std::vector<std::string> ops = joined(body);
  EXPECT_THAT(ops, Contains("conv2d_dgrad_batch_norm_grad"));
  EXPECT_THAT(ops, Contains("conv2d_dgrad").Times(1));
  EXPECT_THAT(ops, Not(Contains(HasSubstr("relu_grad"))));
  manual_seed(9);
  const Norm on_cpu(Device::cpu());
  const Tensor w = window(1, Device::cpu());
  const Tensor v = window(1, Device::cpu());
  const Body same = [&](std::span<const Tensor> in) -> Tensors {
    const Tensor x = in[0].detach().set_requires_grad();
    const Tensor y = relu(add(on_cpu(x), in[0]));
    const Tensor a = sum(square(conv2d(y, w)));
    const Tensor b = sum(square(conv2d(y, v, {}, {.stride = 2})));
    return {grad({add(a, b)}, {x})[0]};
  };
  const Tensor x = uniform({3, kChannels, 7, 6}, -1, 1);
  const std::vector<float> want = same({&x, 1})[0].to_vector<float>();
  force_kernel("conv2d_dgrad_batch_norm_grad", "composed");
  CompiledFunction compiled(same);
  EXPECT_THAT(compiled({&x, 1})[0].to_vector<float>(),
              testing::Pointwise(testing::FloatNear(2e-4F), want));
  force_kernel("conv2d_dgrad_batch_norm_grad", "");
  EXPECT_THAT(compiled.plan()->kernels(), Contains("conv2d_dgrad_batch_norm_grad: composed"));
}

/// What each step of training some residual blocks gives, and the parameters after it.
std::vector<std::vector<float>> train(const Tensor& x, bool compiled) {
  manual_seed(7);
  const Device device = x.device();
  std::vector<Norm> norms;
  Tensors weights;
  for (const int64_t size : {1, 3, 1, 1, 1}) {
    norms.emplace_back(device);
    weights.push_back(window(size, device));
  }
  Tensors parameters = weights;
  for (const Norm& n : norms) parameters.insert(parameters.end(), {n.weight, n.bias});
  const Tensor lr = scalar(0.05);
  const auto layer = [&](const Tensor& t, size_t i) {
    return norms[i](conv2d(t, weights[i], {}, {.padding = weights[i].size(2) / 2}));
  };
  const Body step = [&](std::span<const Tensor> in) -> Tensors {
    const Tensor first = relu(layer(in[0], 0));
    const Tensor second = relu(add(layer(first, 1), first));
    const Tensor third = relu(add(layer(second, 2), second));
    const Tensor y = relu(add(layer(third, 3), layer(third, 4)));
    const Tensor loss = mean(square(sub(y, in[0])));
    loss.backward();
    const NoGrad guard;
    Tensors gradients;
    for (const Tensor& p : parameters) gradients.push_back(p.grad());
    sgd_update(lr, parameters, gradients, {}, {});
    for (const Tensor& p : parameters) p.set_grad({});
    return {loss};
  };
  CompiledFunction function(step);
  std::vector<std::vector<float>> seen;
  for (int i = 0; i < 4; ++i)
    seen.push_back((compiled ? function({&x, 1}) : step({&x, 1}))[0].to_vector<float>());
  if (compiled) {
    const auto kernels = function.plan()->kernels();
    // One layer has a window of nine pixels, another no program after it; two gradients come from
    // below a residual.
    EXPECT_THAT(kernels, Contains(testing::StartsWith("conv2d: ")).Times(1));
    EXPECT_THAT(kernels, Contains("conv2d_batch_norm: composed").Times(1));
    EXPECT_THAT(kernels, Contains("conv2d_dgrad_batch_norm_grad: composed").Times(2));
    EXPECT_THAT(kernels, Not(Contains(HasSubstr("relu"))));
  }
  for (const Tensor& p : parameters) seen.push_back(p.to_vector<float>());
  for (const Norm& n : norms)
    seen.insert(seen.end(), {n.mean.to_vector<float>(), n.var.to_vector<float>()});
  return seen;
}

TEST(JoinConvBatchNorm, ATrainingStepComputesTheSame) {
  manual_seed(8);
  const Tensor x = uniform({4, kChannels, 9, 8}, -1, 1);
  for (const MemoryFormat format : {MemoryFormat::contiguous, MemoryFormat::channels_last}) {
    const Tensor in = contiguous(x, format);
    const auto eager = train(in, false);
    const char* const ops[] = {"conv2d_batch_norm", "conv2d_dgrad_batch_norm_grad", "anchored"};
    for (const char* op : ops) force_kernel(op, "composed");
    const auto compiled = train(in, true);
    for (const char* op : ops) force_kernel(op, "");
    ASSERT_EQ(eager.size(), compiled.size());
    for (size_t i = 0; i < eager.size(); ++i)
      EXPECT_THAT(compiled[i], testing::Pointwise(testing::FloatNear(2e-5F), eager[i])) << i;
  }
}

}  // namespace
}  // namespace mica
