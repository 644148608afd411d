#include "mica/models/image_models.h"

#include <gtest/gtest.h>

#include "mica/models/models.h"
#include "mica/nn/nn.h"
#include "mica/ops/ops.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

int64_t numbers_in(const nn::Module& net) {
  int64_t n = 0;
  for (const Tensor& p : net.parameters()) n += p.numel();
  return n;
}

// The numbers of torchvision's metadata ("num_params"), and of the lite package's file.
TEST(ImageModels, HaveTheParametersOfTheirOriginals) {
  EXPECT_EQ(numbers_in(models::mobilenet_v2()), 3504872);
  EXPECT_EQ(numbers_in(models::mobilenet_v3_large()), 5483032);
  EXPECT_EQ(numbers_in(models::efficientnet_lite0()), 4652008);
}

TEST(ImageModels, TakeOtherChannelsAndClasses) {
  const NoGrad guard;
  for (const char* name : {"mobilenet_v2", "mobilenet_v3_large", "efficientnet_lite0"}) {
    const nn::Module net = models::make(name, {.classes = 7, .in = 1});
    net.eval();
    EXPECT_EQ(net(zeros({2, 1, 32, 32})).shape(), Shape({2, 7})) << name;
  }
  expect_error<Error>("lenet is for 10 classes and images of 1 channel, not for 1000 and 3",
                      [] { models::make("lenet", {}); });
}

TEST(ImageModels, SegmentAtTheSizeOfTheImages) {
  const NoGrad guard;
  for (const bool bilinear : {false, true}) {
    const nn::Module unet = models::unet({.classes = 3, .in = 1, .width = 4, .bilinear = bilinear});
    EXPECT_EQ(unet(ones({1, 1, 35, 50})).shape(), Shape({1, 3, 35, 50}));
    EXPECT_EQ(unet.state_dict().contains("up1.up.weight"), !bilinear);
    EXPECT_TRUE(unet.state_dict().contains("down4.maxpool_conv.1.double_conv.4.running_var"));
  }
  expect_error<ShapeError>("16×16 and more",
                           [] { models::unet({.width = 1})(ones({1, 3, 8, 32})); });
}

TEST(ImageModels, DropWholeRowsAndScaleTheOthers) {
  manual_seed(3);
  const nn::StochasticDepth layer(0.25);
  const Tensor y = layer(ones({400, 2, 3}));
  int64_t kept = 0;
  for (int64_t i = 0; i < 400; ++i) {
    const double first = min(select(y, 0, i)).item();
    EXPECT_EQ(max(select(y, 0, i)).item(), first);
    EXPECT_TRUE(first == 0 || std::abs(first - 1 / 0.75) < 1e-6) << first;
    kept += first > 0 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(kept), 300, 35);
  const Tensor whole =
      nn::StochasticDepth({.p = 0.5, .mode = nn::DepthMode::batch})(ones({8, 2, 2}));
  const double all = sum(whole).item();
  EXPECT_TRUE(all == 0 || all == 64) << all;
  layer.eval();
  EXPECT_EQ(sum(layer(ones({4, 2}))).item(), 8);
  expect_error<Error>("p must be in [0, 1], got 1.5", [] { nn::StochasticDepth(1.5); });
}

TEST(ImageModels, LayersSayWhatTheyExpect) {
  expect_error<ShapeError>("expected (N, 4, H, W), got [2, 3, 5, 5]",
                           [] { nn::LayerNorm2d(4)(ones({2, 3, 5, 5})); });
  expect_error<ShapeError>("expected (N, 4, H, W), got [2, 4]", [] {
    nn::SqueezeExcitation({.channels = 4, .squeeze = 2})(ones({2, 4}));
  });
  expect_error<Error>("channels and squeeze must be at least 1",
                      [] { nn::SqueezeExcitation({.channels = 4}); });
}

}  // namespace
}  // namespace mica
