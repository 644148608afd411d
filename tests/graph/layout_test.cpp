// Convolutions of halves that run in channels_last, with what is between them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/graph/passes/passes.h"
#include "mica/graph/plan.h"
#include "mica/mica.h"
#include "mica/runtime/cpu/cpu_features.h"
#include "tests/graph/ops_of.h"

namespace mica {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

using Body = std::function<Tensors(const Tensor& x, const Tensor& w, const Tensor& b)>;

/// 3x3, on (2, 8, 6, 10).
Tensor conv(const Tensor& x, const Tensor& w, const Tensor& b = {}) {
  return conv2d(x, w, b, {.padding = {1, 1}});
}

struct Halves {
  Device device = Device::null();
  DType dtype = DType::bf16;
  Tensor w = cast(uniform({8, 8, 3, 3}, -1, 1, {.device = device}), dtype);
  Tensor b = cast(uniform({8}, -1, 1, {.device = device}), dtype);
  TensorSpec x = TensorSpec::contiguous({2, 8, 6, 10}, dtype, device);

  Captured captured(const Body& body) const {
    return capture([&](std::span<const Tensor> in) { return body(in[0], w, b); }, {&x, 1});
  }
  Graph laid_out(const Body& body) const {
    Graph g = captured(body).graph;
    choose_layout_on(DeviceKind::cuda, g);
    remove_identities(g);
    remove_dead_nodes(g);
    return g;
  }
};

/// Whether the calls of an op give images in channels_last.
bool in_channels_last(const Graph& g, std::string_view op) {
  return std::all_of(g.nodes.begin(), g.nodes.end(), [&](const Node& n) {
    return n.op->name != op || g[n.out[0]].spec.is_channels_last();
  });
}

Tensors stack(const Tensor& x, const Tensor& w, const Tensor& b) {
  const Tensor y = relu(conv(x, w, b));
  const Tensor z = relu(add(conv(y, w), y));
  return {conv(max_pool2d(z, {.kernel = {2, 2}}), w, b)};
}

TEST(Layout, AStackIsConvertedOnceAtEachEnd) {
  const Graph g = Halves().laid_out(stack);
  EXPECT_THAT(ops_of(g), ElementsAre("copy", "conv2d", "relu", "conv2d", "add", "relu",
                                     "max_pool2d", "conv2d", "copy"));
  for (const char* op : {"conv2d", "relu", "add", "max_pool2d"})
    EXPECT_TRUE(in_channels_last(g, op)) << op;
  EXPECT_TRUE(g[g.outputs[0]].spec.is_contiguous());
  for (int i = 0; i < static_cast<int>(g.nodes.size()); ++i)
    EXPECT_EQ(g[g.nodes[static_cast<size_t>(i)].out[0]].node, i);
}

TEST(Layout, LeavesWhatWouldNotPay) {
  const auto unchanged = [](const Halves& setup, const Body& body) {
    EXPECT_THAT(ops_of(setup.laid_out(body)), Not(Contains("copy")));
  };
  // One convolution has as much to convert as it spares.
  unchanged({}, [](const Tensor& x, const Tensor& w, const Tensor& b) -> Tensors {
    return {relu(conv(x, w, b))};
  });
  // Floats.
  unchanged({.dtype = DType::f32}, stack);
  // Every image is asked for.
  unchanged({}, [](const Tensor& x, const Tensor& w, const Tensor&) -> Tensors {
    const Tensor y = conv(x, w);
    const Tensor z = conv(exp(y), w);
    return {y, z, exp(z)};
  });
}

TEST(Layout, FloatsOnTheCpu) {
  const Halves floats{.dtype = DType::f32};
  const auto laid_out = [&](const Body& body) {
    Graph g = floats.captured(body).graph;
    choose_layout_on(DeviceKind::cpu, g);
    remove_identities(g);
    return g;
  };
  const Graph g = laid_out(stack);
  EXPECT_THAT(ops_of(g), ElementsAre("copy", "conv2d", "relu", "conv2d", "add", "relu",
                                     "max_pool2d", "conv2d", "copy"));
  EXPECT_TRUE(in_channels_last(g, "conv2d"));
  const Graph one = laid_out([](const Tensor& x, const Tensor& w, const Tensor& b) -> Tensors {
    return {relu(conv(x, w, b))};
  });
  EXPECT_THAT(ops_of(one), Not(Contains("copy")));
}

TEST(Layout, OnTheCpuGivesWhatRowMajorImagesGive) {
  manual_seed(4);
  const Halves floats{.device = {}, .dtype = DType::f32};
  const Tensor x = uniform({2, 8, 6, 10}, -1, 1);
  CompiledFunction compiled(
      [&](std::span<const Tensor> in) { return stack(in[0], floats.w, floats.b); });
  const Tensors y = compiled({&x, 1});
  const Graph& g = compiled.plan()->graph();
  EXPECT_TRUE(std::any_of(g.nodes.begin(), g.nodes.end(),
                          [&](const Node& n) { return g[n.out[0]].spec.is_channels_last(); }));
  EXPECT_TRUE(y[0].is_contiguous());
  EXPECT_THAT(y[0].to_vector<float>(),
              testing::Pointwise(testing::FloatNear(1e-4F),
                                 stack(x, floats.w, floats.b)[0].to_vector<float>()));
}

struct AllowTf32 {
  bool before = allow_tf32();
  explicit AllowTf32(bool on) { set_allow_tf32(on); }
  ~AllowTf32() { set_allow_tf32(before); }
};

TEST(Layout, FloatsWhereTf32IsAllowedAndTheLibraryComputes) {
  const auto ops = [](int64_t wide, int64_t narrow) {
    const TensorOptions o{.device = Device::null()};
    const Tensor w = zeros({wide, wide, 3, 3}, o);
    const Tensor down = zeros({narrow, wide, 1, 1}, o);
    const Tensor up = zeros({wide, narrow, 1, 1}, o);
    const TensorSpec x = TensorSpec::contiguous({2, wide, 6, 10}, DType::f32, Device::null());
    Graph g = capture(
                  [&](std::span<const Tensor> in) -> Tensors {
                    Tensor y = relu(conv(conv(in[0], w), w));
                    if (narrow > 0) y = conv2d(relu(conv2d(y, down)), up);
                    return {conv(y, w)};
                  },
                  {&x, 1})
                  .graph;
    choose_layout_on(DeviceKind::cuda, g);
    return ops_of(g);
  };
  const AllowTf32 allowed(true);
  EXPECT_THAT(ops(64, 0), ElementsAre("copy", "conv2d", "conv2d", "relu", "conv2d", "copy"));
  EXPECT_THAT(ops(8, 0), Not(Contains("copy")));  // kernels of our own
  EXPECT_THAT(ops(64, 4), Contains("copy"));
  EXPECT_THAT(ops(64, 64), Not(Contains("copy")));  // two of ours have as many images
  const AllowTf32 not_allowed(false);
  EXPECT_THAT(ops(64, 0), Not(Contains("copy")));
}

/// A step of training: forward, backward, update. Gives the loss.
struct Training {
  Device device = Device::null();
  DType dtype = DType::bf16;
  Tensor w1 = parameter({8, 8, 3, 3});
  Tensor w2 = parameter({8, 8, 3, 3});
  Tensor gamma = uniform({8}, 0.5, 1, {.device = device});
  Tensor beta = uniform({8}, -1, 1, {.device = device});
  Tensor mean = zeros({8}, {.device = device});
  Tensor variance = ones({8}, {.device = device});

  Tensor parameter(const Shape& shape) const {
    return cast(uniform(shape, -0.3, 0.3, {.device = device}), dtype);
  }
  Tensors step(const Tensor& x) const {
    const Tensors weights = {w1, w2, gamma, beta};
    for (const Tensor& w : weights) w.set_requires_grad();
    const Tensor y = relu(batch_norm(conv(x, w1), gamma, beta, mean, variance, {.training = true}));
    const Tensor z = max_pool2d(relu(add(conv(y, w2), y)), {.kernel = {2, 2}});
    const Tensor loss = mica::mean(square(cast(reshape(z, {2, 120}), DType::f32)));
    const Tensors gradients = grad({loss}, weights);
    const NoGrad guard;
    for (size_t i = 0; i < weights.size(); ++i)
      copy_(weights[i].detach(), sub(weights[i], mul(gradients[i], 0.1)));
    return {loss, gradients[0]};
  }
  Captured captured() const {
    const TensorSpec x = TensorSpec::contiguous({2, 8, 6, 10}, dtype, device);
    return capture([&](std::span<const Tensor> in) { return step(in[0]); }, {&x, 1});
  }
};

TEST(Layout, TrainingToo) {
  Graph g = Training().captured().graph;
  const auto before = static_cast<int>(std::ranges::count(ops_of(g), "copy"));
  choose_layout_on(DeviceKind::cuda, g);
  remove_identities(g);
  for (const char* op : {"conv2d", "conv2d_dgrad", "batch_norm", "batch_norm_grad", "relu",
                         "relu_grad", "max_pool2d", "max_pool2d_grad"})
    EXPECT_TRUE(in_channels_last(g, op)) << op;
  for (const Node& node : g.nodes)
    if (std::string_view(node.op->name) == "conv2d_wgrad") {
      EXPECT_TRUE(g[node.out[0]].spec.is_contiguous());
      EXPECT_TRUE(g[node.in[0]].spec.is_channels_last() && g[node.in[1]].spec.is_channels_last());
    }
  // The argument, both weights, the image that is reshaped, and its gradient.
  EXPECT_EQ(std::ranges::count(ops_of(g), "copy") - before, 5) << g.dump();
}

TEST(Layout, TrainingComputesTheSame) {
  const auto outcome = [](bool laid_out) {
    manual_seed(5);
    const Training training{.device = Device::cpu(), .dtype = DType::f16};
    const Tensor x = cast(uniform({2, 8, 6, 10}, -1, 1), DType::f16);
    Tensors all;
    Captured captured = training.captured();
    if (laid_out) choose_layout_on(DeviceKind::cuda, captured.graph);
    Plan plan(std::move(captured));
    for (int i = 0; i < 3; ++i) all = laid_out ? plan.run({&x, 1}) : training.step(x);
    all.insert(all.end(), {training.w1, training.w2, training.gamma, training.mean});
    return all;
  };
  const Tensors want = outcome(false);
  const Tensors got = outcome(true);
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(got[i].strides(), want[i].strides());
    EXPECT_THAT(cast(got[i].detach(), DType::f32).to_vector<float>(),
                testing::Pointwise(testing::FloatNear(0.02F),
                                   cast(want[i].detach(), DType::f32).to_vector<float>()));
  }
}

TEST(Layout, OnTheCpuProductsOfBf16RunInChannelsLast) {
  if (!has_bf16_products()) GTEST_SKIP() << "skipped: this processor has no products of bf16";
  manual_seed(6);
  const nn::Sequential net(nn::Conv2d({.in = 8, .out = 32, .kernel = 3, .padding = 1}),
                           nn::BatchNorm2d(32), nn::ReLU(),
                           nn::Conv2d({.in = 32, .out = 32, .kernel = 3, .padding = 1}));
  const Tensors weights = net.parameters();
  const auto step = compile([&](const Tensor& x) {
    const Tensor y = [&] {
      const Autocast low(DeviceKind::cpu, DType::bf16);
      return net(x);
    }();
    return grad({mean(square(y))}, weights);
  });
  const Tensor x = uniform({4, 8, 16, 16}, -1, 1);
  step(x);
  const Plan& plan = *step.function()->plan();
  EXPECT_TRUE(in_channels_last(plan.graph(), "conv2d"));
  EXPECT_THAT(plan.kernels(), Contains("conv2d_wgrad: onednn"));
  EXPECT_THAT(plan.kernels(), Not(Contains(testing::HasSubstr("conv2d_wgrad: reference"))));
}

TEST(Layout, OnTheCpuOneConvolutionOfBf16IsWorthTwoConversions) {
  if (!has_bf16_products()) GTEST_SKIP() << "skipped: this processor has no products of bf16";
  for (const int64_t channels : {32, 24}) {  // whole vectors, and not
    const nn::Conv2d net({.in = 8, .out = channels, .kernel = 3});
    const auto forward = compile([&](const Tensor& x) {
      const Autocast low(DeviceKind::cpu, DType::bf16);
      return net(x);
    });
    forward(uniform({4, 8, 16, 16}, -1, 1));
    EXPECT_EQ(in_channels_last(forward.function()->plan()->graph(), "conv2d"), channels == 32);
  }
}

TEST(Layout, OnTheCpuWindowsOutsideOfImagesAreNotMultiplied) {
  manual_seed(7);
  const nn::Sequential net(nn::Conv2d({.in = 32, .out = 64, .kernel = 3, .padding = 1}),
                           nn::Conv2d({.in = 64, .out = 32, .kernel = 3, .padding = 1}));
  for (const bool low : {false, true}) {
    if (low && !has_bf16_products()) continue;
    const auto step = compile([&](const Tensor& x) {
      const Autocast region(DeviceKind::cpu, DType::bf16, low);
      return grad({mean(square(net(x)))}, net.parameters());
    });
    step(uniform({16, 32, 1, 1}, -1, 1));
    const auto kernels = step.function()->plan()->kernels();
    for (const char* op : {"conv2d", "conv2d_dgrad", "conv2d_wgrad"})
      EXPECT_THAT(kernels, Contains(std::string(op) + ": onednn")) << low;
  }
}

TEST(Layout, TheOtherDevicesKeepTheirs) {
  Graph g = Halves().captured(stack).graph;
  choose_layout(g);
  EXPECT_THAT(ops_of(g), Not(Contains("copy")));
}

TEST(Layout, CastsConvertOnTheWay) {
  const Graph g = Halves{.dtype = DType::f16}.laid_out(
      [](const Tensor& x, const Tensor& w, const Tensor&) -> Tensors {
        const Tensor y = conv(conv(cast(cast(x, DType::f32), DType::f16), w), w);
        return {sum(cast(y, DType::f32), {1})};
      });
  EXPECT_THAT(ops_of(g), ElementsAre("copy", "copy", "conv2d", "conv2d", "copy", "sum"));
  EXPECT_TRUE(g[g.nodes[1].out[0]].spec.is_channels_last());
  EXPECT_TRUE(g[g.nodes[4].out[0]].spec.is_channels_last());  // a sum reads it as it lies
  const Graph read = Halves{.dtype = DType::f16}.laid_out(
      [](const Tensor& x, const Tensor& w, const Tensor&) -> Tensors {
        const Tensor y = cast(conv(conv(x, w), w), DType::f32);
        return {sum(y, {1}), reshape(y, {-1})};
      });
  const auto made = std::find_if(read.nodes.rbegin(), read.nodes.rend(),
                                 [](const Node& n) { return n.op->copies; });
  ASSERT_NE(made, read.nodes.rend());
  EXPECT_TRUE(read[made->out[0]].spec.is_contiguous());
}

TEST(Layout, CastsForMeansLeaveTheFormat) {
  const Graph g = Halves().laid_out([](const Tensor& x, const Tensor& w, const Tensor& b) {
    return Tensors{mean(stack(x, w, b)[0], {2, 3})};
  });
  int casts = 0;
  for (const Node& n : g.nodes)
    if (n.op->copies && g[n.out[0]].spec.rank() == 4 && g[n.out[0]].spec.dtype == DType::f32) {
      EXPECT_TRUE(g[n.out[0]].spec.is_channels_last());
      ++casts;
    }
  EXPECT_EQ(casts, 1);
}

TEST(Layout, ConversionsThatCancelGo) {
  const Graph g = Halves().laid_out([](const Tensor& x, const Tensor& w, const Tensor&) -> Tensors {
    const Tensor before = contiguous(x, MemoryFormat::channels_last);
    const Tensor y = conv(conv(contiguous(before), w), w);
    return {contiguous(y, MemoryFormat::channels_last)};
  });
  EXPECT_THAT(ops_of(g), ElementsAre("copy", "conv2d", "conv2d"));
}

TEST(Layout, ViewsAreTakenOfTheRowMajorCopy) {
  const Graph g = Halves().laid_out([](const Tensor& x, const Tensor& w, const Tensor&) -> Tensors {
    return {reshape(conv(conv(x, w), w), {2, 480})};
  });
  EXPECT_THAT(ops_of(g), ElementsAre("copy", "conv2d", "conv2d", "copy", "reshape"));
  EXPECT_EQ(g[g.outputs[0]].base, g.nodes[3].out[0]);
}

TEST(Layout, ComputesTheSame) {
  manual_seed(21);
  const Body bodies[] = {stack, [](const Tensor& x, const Tensor& w, const Tensor& b) -> Tensors {
                           const Tensor y = conv(conv(gelu(x), w, b), w);
                           return {mul(y, x), reshape(avg_pool2d(y, {.kernel = {6, 10}}), {2, 8})};
                         }};
  for (const Body& body : bodies) {
    const Halves setup{.device = Device::cpu(), .dtype = DType::f16};
    const Tensor x = cast(uniform({2, 8, 6, 10}, -1, 1), DType::f16);
    Captured captured = setup.captured(body);
    choose_layout_on(DeviceKind::cuda, captured.graph);
    ASSERT_THAT(ops_of(captured.graph), Contains("copy"));
    Plan plan(std::move(captured));
    const Tensors got = plan.run({&x, 1});
    const Tensors want = body(x, setup.w, setup.b);
    for (size_t i = 0; i < want.size(); ++i) {
      EXPECT_EQ(got[i].strides(), want[i].strides());
      EXPECT_THAT(cast(got[i], DType::f32).to_vector<float>(),
                  testing::Pointwise(testing::FloatNear(0.1F),
                                     cast(want[i], DType::f32).to_vector<float>()));
    }
  }
}

TEST(Layout, OnCudaResidualsAreJoinedInChannelsLast) {
  if (!cuda_available()) GTEST_SKIP() << "skipped: no CUDA device: " << cuda_unavailable_reason();
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const auto device = Device::cuda(0);
    const Tensor w = cast(uniform({64, 64, 3, 3}, -0.06, 0.06, {.device = device}), dtype);
    const Tensor b = cast(uniform({64}, -1, 1, {.device = device}), dtype);
    const auto body = [&](const Tensor& x) {
      return relu(add(conv(relu(conv(x, w, b)), w, b), x));
    };
    const Tensor x = cast(uniform({4, 64, 14, 14}, -1, 1, {.device = device}), dtype);
    auto compiled = compile(body);
    const Tensor got = compiled(x);
    const Tensor want = body(x);
    EXPECT_EQ(got.strides(), want.strides());
    const std::vector<std::string> kernels = compiled.function()->plan()->kernels();
    EXPECT_EQ(std::ranges::count_if(
                  kernels, [](const std::string& k) { return k.starts_with("anchored: conv2d_"); }),
              2);
    EXPECT_THAT(
        cast(got, DType::f32).to_vector<float>(),
        testing::Pointwise(testing::FloatNear(0.1F), cast(want, DType::f32).to_vector<float>()));
  }
}

}  // namespace
}  // namespace mica
