#include "mica/models/models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "mica/nn/summary.h"
#include "mica/ops/fill/fill.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using testing::IsSupersetOf;

TEST(Models, HaveTheirShapesAndCounts) {
  EXPECT_THAT(models::names(), IsSupersetOf({"mlp", "resnet50", "convnext_tiny"}));
  const std::map<std::string, int64_t> counts = {
      {"mlp", 784 * 512 + 512 + 512 * 256 + 256 + 2570},
      {"simple_cnn", 144 + 31360},
      {"lenet", 431080},
      {"lenet6", 156 + 2416 + 256 * 120 + 120 + 1210},
      {"mnist_net", 320 + 18496 + 9216 * 128 + 128 + 1290}};
  for (const auto& [name, count] : counts) {
    const nn::Summary s = nn::summary(models::make(name), {1, 1, 28, 28});
    EXPECT_EQ(s.parameters, count) << name;
    EXPECT_EQ(s.rows.back().output, Shape({1, 10})) << name;
  }
  EXPECT_EQ(models::mlp({.in = 4, .hidden = {}, .classes = 3})(ones({2, 2, 2})).shape(),
            Shape({2, 3}));
  EXPECT_EQ(nn::summary(models::cnn(), {2, 3, 32, 32}).parameters,
            16 * 27 + 16 + 32 * 144 + 32 + 2048 * 10 + 10);
  EXPECT_EQ(models::cnn()(ones({2, 3, 32, 32})).shape(), Shape({2, 10}));
  EXPECT_TRUE(models::cnn().state_dict().contains("7.bias"));
  EXPECT_THAT(nn::to_string(models::mlp({.activation = Activation::gelu})),
              testing::AllOf(testing::HasSubstr("GELU"), testing::Not(testing::HasSubstr("ReLU"))));
  EXPECT_TRUE(models::mnist_net().state_dict().contains("fc2.bias"));
  expect_error<Error>("'vgg'; there are mlp, simple_cnn", [] { models::make("vgg"); });
}

}  // namespace
}  // namespace mica
