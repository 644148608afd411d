#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/mica.h"
#include "mica/models.h"

namespace mica {
namespace {

using testing::HasSubstr;

TEST(ResNet, HasTheNamesAndSizesOfTorchvisions) {
  const nn::Module net = models::resnet50();
  const nn::StateDict state = net.state_dict();
  for (const char* name :
       {"conv1.weight", "bn1.running_var", "layer1.0.conv1.weight", "layer1.0.downsample.0.weight",
        "layer1.0.downsample.1.bias", "layer4.2.bn3.weight", "fc.bias"})
    EXPECT_TRUE(state.contains(name)) << name;
  EXPECT_FALSE(state.contains("layer1.1.downsample.0.weight"));
  int64_t parameters = 0;
  for (const Tensor& p : net.parameters()) parameters += p.numel();
  EXPECT_EQ(parameters, 25557032);
  parameters = 0;
  for (const Tensor& p : models::resnet18().parameters()) parameters += p.numel();
  EXPECT_EQ(parameters, 11689512);
  EXPECT_EQ(net.at("layer2.0.conv2").as<nn::Conv2d>()->options.stride.h, 2);
}

TEST(ResNet, GivesLogitsAndLearns) {
  manual_seed(1);
  const nn::Module net =
      models::resnet({.blocks = {1, 1, 1, 1}, .bottleneck = false, .classes = 3});
  const Tensor x = uniform({4, 3, 32, 32}, -1, 1);
  const Tensor y = tensor(std::vector<int64_t>{0, 1, 2, 1}, {4});
  optim::SGD optimizer(net.parameters(), {.lr = 0.05});
  auto step = compile([&] {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net(x), y);
    loss.backward();
    optimizer.step();
    return loss;
  });
  const double first = step().item();
  for (int i = 0; i < 3; ++i) step();
  EXPECT_LT(step().item(), 0.7 * first);
  EXPECT_THROW(net(select(x, 0, 0)), ShapeError);
}

TEST(ResNet, RefusesEmptyStages) {
  try {
    models::resnet({.blocks = {1, 0, 1, 1}});
    FAIL() << "expected an error";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("at least one block"));
  }
}

}  // namespace
}  // namespace mica
