// Small networks that a seed chooses, trained a few steps: compiled on the device under test in
// f32, beside eager f64 on the CPU. TF32 and timing are as the environment has them (MICA_TF32,
// MICA_AUTOTUNE), so that every kernel that timing may choose is run where it is safe or not.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "mica/mica.h"
#include "tests/device.h"

namespace mica {
namespace {

using test::device;

struct Network {
  nn::Sequential layers;
  Shape input;
};

/// Odd channels, groups, strides and sizes: what does not fit vectors and tiles.
Network network_of(uint32_t seed) {
  std::mt19937 random(seed);
  const auto among = [&](std::initializer_list<int64_t> list) {
    return list.begin()[random() % list.size()];
  };
  Network net;
  int64_t channels = among({1, 2, 3, 5, 8, 16});
  int64_t size = among({3, 5, 8, 13, 16});
  net.input = {among({1, 2, 5, 8, 33}), channels, size, size};
  const auto activation = [&]() -> nn::Module {
    switch (random() % 5) {
      case 0:
        return nn::ReLU();
      case 1:
        return nn::GELU();
      case 2:
        return nn::SiLU();
      case 3:
        return nn::Tanh();
      default:
        return nn::Identity();
    }
  };
  for (int64_t i = among({1, 2, 3}); i > 0; --i) {
    const int64_t kernel = among({1, 3, 3, 5});
    const int64_t groups = random() % 3 == 0 ? channels : 1;
    const int64_t out = groups * among({1, 2, 3, 4, 8});
    const int64_t stride = size >= 8 ? among({1, 1, 2}) : 1;
    net.layers.push_back(nn::Conv2d({.in = channels,
                                     .out = out,
                                     .kernel = kernel,
                                     .stride = stride,
                                     .padding = kernel / 2,
                                     .groups = groups,
                                     .bias = random() % 2 == 0}));
    channels = out;
    size = (size - 1) / stride + 1;
    if (random() % 3 == 0 && net.input[0] * size * size > 8)
      net.layers.push_back(nn::BatchNorm2d(channels));
    net.layers.push_back(activation());
    if (size >= 4 && random() % 2 == 0) {
      net.layers.push_back(random() % 2 == 0 ? nn::Module(nn::MaxPool2d(2))
                                             : nn::Module(nn::AvgPool2d(2)));
      size /= 2;
    }
  }
  net.layers.push_back(nn::Flatten());
  int64_t features = channels * size * size;
  for (int64_t i = among({0, 1, 2}); i > 0; --i) {
    const int64_t out = among({1, 7, 16, 33, 64});
    net.layers.push_back(nn::Linear(features, out));
    net.layers.push_back(activation());
    features = out;
  }
  net.layers.push_back(nn::Linear(features, 4));
  return net;
}

std::vector<double> losses_of(const nn::Sequential& net, const Tensor& x, const Tensor& y,
                              bool compiled) {
  optim::SGD optimizer(net.parameters(), {.lr = 0.05, .momentum = 0.9});
  const auto step = [&](const Tensor& images, const Tensor& classes) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net(images), classes);
    loss.backward();
    optimizer.step();
    return loss;
  };
  auto as_graph = compile(step);
  std::vector<double> losses;
  for (int i = 0; i < 3; ++i) losses.push_back((compiled ? as_graph(x, y) : step(x, y)).item());
  return losses;
}

TEST(RandomNetworks, TrainAsInDoublePrecision) {
  if (device().is_cuda() && !cuda_available())
    GTEST_SKIP() << "no CUDA device: " << cuda_unavailable_reason();
  const char* count = std::getenv("MICA_TEST_NETWORKS");
  const auto networks = static_cast<uint32_t>(count ? std::atoi(count) : 40);
  const double tolerance = allow_tf32() && device().is_cuda() ? 2e-2 : 1e-3;
  for (uint32_t seed = 0; seed < networks; ++seed) {
    manual_seed(seed);
    const Network net = network_of(seed);
    const Tensor x = uniform(net.input, -1, 1);
    const Tensor y = randint(0, 4, {net.input[0]});
    const auto weights = net.layers.state_dict();
    Network same = network_of(seed);
    same.layers.load_state_dict(weights);
    same.layers.to(DType::f64);
    net.layers.to(device());
    SCOPED_TRACE("network " + std::to_string(seed) + " of " + to_string(net.input) + ": " +
                 nn::to_string(net.layers));
    const std::vector<double> expected = losses_of(same.layers, cast(x, DType::f64), y, false);
    const std::vector<double> got = losses_of(net.layers, to(x, device()), to(y, device()), true);
    for (size_t i = 0; i < expected.size(); ++i)
      ASSERT_NEAR(got[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << "loss " << i;
  }
}

}  // namespace
}  // namespace mica
