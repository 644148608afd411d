// What it takes to capture and plan a network grows as its layers do. Processor time, the least of
// a few tries: what a shared machine does beside shows little in it.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "mica/graph/capture.h"
#include "mica/graph/passes/passes.h"
#include "mica/mica.h"

namespace mica {
namespace {

double seconds(const std::function<void(int)>& first_call, int layers) {
  double least = 1e9;
  for (int k = 0; k < 3; ++k) {
    const std::clock_t start = std::clock();
    first_call(layers);
    least = std::min(least, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return least;
}

/// A pass that walks through the whole graph for every layer takes four times as long for each.
void expect_near_linear(const std::function<void(int)>& first_call) {
  constexpr int kFew = 100;
  constexpr int kMany = 400;
  if (dlsym(RTLD_DEFAULT, "__asan_init")) {
    first_call(kMany);
    GTEST_SKIP() << "AddressSanitizer keeps freed memory: time grows with all that was allocated";
  }
  first_call(2);
  const double few = seconds(first_call, kFew) / kFew;
  const double many = seconds(first_call, kMany) / kMany;
  EXPECT_LT(many, 2 * few) << few * 1e6 << " us a layer of " << kFew << ", " << many * 1e6 << " of "
                           << kMany;
}

TEST(PlanningTime, OfATrainingStep) {
  expect_near_linear([](int layers) {
    nn::Sequential net;
    for (int i = 0; i < layers; ++i) {
      net->push_back(nn::Linear(8, 8));
      net->push_back(nn::ReLU());
    }
    optim::Adam optimizer(net.parameters(), {.lr = 1e-3});
    const Tensor x = ones({2, 8});
    const auto step = compile([&] {
      const Tensor loss = mean(square(net(x)));
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      return loss;
    });
    step();
  });
}

TEST(PlanningTime, OfConvolutionsWithBatchNormInThem) {
  expect_near_linear([](int layers) {
    nn::Sequential net;
    for (int i = 0; i < layers; ++i) {
      net->push_back(nn::Conv2d({.in = 2, .out = 2, .kernel = 1}));
      net->push_back(nn::BatchNorm2d(2));
      net->push_back(nn::ReLU());
    }
    net.eval();
    const NoGrad guard;
    const auto run = compile([&](const Tensor& x) { return net(x); });
    run(ones({1, 2, 2, 2}));
  });
}

TEST(PlanningTime, OfLayoutsInTraining) {
  expect_near_linear([](int layers) {
    Tensors weights;
    for (int i = 0; i < layers; ++i)
      weights.push_back(zeros({8, 8, 1, 1}, {DType::bf16, Device::null()}).set_requires_grad());
    optim::SGD optimizer(weights, {.lr = 0.1});
    const TensorSpec x = TensorSpec::contiguous({2, 8, 16, 16}, DType::bf16, Device::null());
    Graph graph = capture(
                      [&](std::span<const Tensor> in) -> Tensors {
                        Tensor y = in[0];
                        for (const Tensor& w : weights) y = relu(conv2d(y, w));
                        const Tensor loss = mean(square(y));
                        optimizer.zero_grad();
                        loss.backward();
                        optimizer.step();
                        return {loss};
                      },
                      {&x, 1})
                      .graph;
    choose_layout_on(DeviceKind::cuda, graph);
    const auto converted = [&](const Node& n) { return graph[n.out[0]].spec.is_channels_last(); };
    EXPECT_TRUE(std::any_of(graph.nodes.begin(), graph.nodes.end(), converted));
  });
}

TEST(PlanningTime, OfCastsThatMoveIntoAConcat) {
  expect_near_linear([](int layers) {
    const auto run = compile([&](const Tensor& x) {
      Tensor y = x;
      for (int i = 0; i < layers; ++i)
        y = slice(cast(cast(concat({y, x}, 0), DType::f16), DType::f32), 0, 0, 2);
      return y;
    });
    run(ones({2, 2}));
  });
}

}  // namespace
}  // namespace mica
