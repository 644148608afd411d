#include "mica/nn/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mica/graph/capture.h"
#include "mica/models/models.h"
#include "mica/nn/nn.h"
#include "mica/ops/ops.h"
#include "tests/unit/expect_error.h"

namespace mica {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Summary, OfLenetCountsExactly) {
  const nn::Sequential net = models::lenet();
  const nn::Summary s = nn::summary(net, {2, 1, 28, 28});
  EXPECT_EQ(s.parameters, 431080);
  EXPECT_EQ(s.trainable, 431080);
  EXPECT_EQ(s.multiply_adds, 2 * 2293000);
  ASSERT_EQ(s.rows.size(), 8U);
  EXPECT_EQ(s.rows[2].name, "2");
  EXPECT_EQ(s.rows[2].type, "Conv2d");
  EXPECT_EQ(s.rows[2].output, Shape({2, 50, 8, 8}));
  EXPECT_EQ(s.rows[2].parameters, 25050);
  EXPECT_EQ(s.rows[2].multiply_adds, 2 * 1600000);
  EXPECT_EQ(s.rows[6].parameters, 0);
  const std::string text = to_string(s);
  EXPECT_THAT(text, HasSubstr("5      Linear     [2, 500]            400,500        800,000\n"));
  EXPECT_THAT(text, HasSubstr("total"));
  net.freeze("0");
  EXPECT_THAT(to_string(nn::summary(net, {1, 1, 28, 28})), HasSubstr("430,560 of the parameters"));
}

/// Shares a layer, computes outside its layers, leaves one unused.
struct OddImpl : nn::ModuleImpl {
  nn::Linear shared = add("shared", nn::Linear(4, 4));
  nn::Linear unused = add("unused", nn::Linear(4, 4));
  nn::Sequential block = add("block", nn::Sequential(nn::Dropout(0.5), nn::BatchNorm1d(4)));
  Tensor scale = parameter("scale", ones({4, 4}));
  Tensor forward(const Tensor& x) { return matmul(block(shared(shared(x))), scale); }
};
using Odd = nn::Handle<OddImpl>;

TEST(Summary, TakesWhatRunsWhereItRuns) {
  const Odd net;
  net->block.eval();
  const nn::Summary s = nn::summary(net, {3, 4});
  std::vector<std::string> rows;
  rows.reserve(s.rows.size());
  for (const auto& row : s.rows)
    rows.push_back(row.name + " " + row.type + " " + std::to_string(row.parameters) + " " +
                   std::to_string(row.multiply_adds));
  EXPECT_THAT(rows, ElementsAre(" Odd 16 48", "shared Linear 20 48", "shared Linear 0 48",
                                "block.0 Dropout 0 0", "block.1 BatchNorm1d 8 0"));
  EXPECT_EQ(s.parameters, 16 + 20 + 20 + 8);
  EXPECT_EQ(s.multiply_adds, 3 * 48);
  // Nothing was changed: modes, statistics, gradients.
  EXPECT_TRUE(net.training());
  EXPECT_FALSE(net->block.training());
  EXPECT_EQ(net->block[1].as<nn::BatchNorm1d>()->num_batches_tracked.item(), 0);
}

TEST(Summary, CountsEveryConvolution) {
  const auto of = [](const nn::Module& layer, const Shape& input) {
    return nn::summary(layer, input).multiply_adds;
  };
  EXPECT_EQ(of(nn::Conv1d({.in = 4, .out = 6, .kernel = 3, .groups = 2}), {2, 4, 10}),
            2 * 6 * 8 * 2 * 3);
  EXPECT_EQ(of(nn::Conv3d({.in = 2, .out = 3, .kernel = 2}), {1, 2, 4, 4, 4}), 3 * 27 * 2 * 8);
  EXPECT_EQ(of(nn::ConvTranspose2d({.in = 4, .out = 6, .kernel = 3, .stride = 2, .groups = 2}),
               {1, 4, 5, 5}),
            4 * 25 * 3 * 9);
}

TEST(Summary, WorksOnAnyDeviceWithoutMemory) {
  const nn::Sequential net = models::mnist_net();
  net.to(Device::null());
  EXPECT_EQ(nn::summary(net, {1'000'000, 1, 28, 28}).rows.back().output, Shape({1'000'000, 10}));
  EXPECT_THAT(to_string(nn::summary(nn::ReLU(), {3})), HasSubstr("ReLU"));
}

TEST(Summary, ErrorsLeaveNothingBehind) {
  const nn::Sequential net = models::lenet();
  expect_error<ShapeError>("linear", [&] { nn::summary(net, {1, 1, 32, 32}); });
  EXPECT_TRUE(net.training());
  EXPECT_EQ(net(zeros({1, 1, 28, 28})).shape(), Shape({1, 10}));
  expect_error<Unsupported>("nn::summary", [&] {
    const TensorSpec spec = TensorSpec::contiguous({1}, DType::f32);
    capture(
        [&](std::span<const Tensor> in) -> Tensors {
          nn::summary(net, {1, 1, 28, 28});
          return {in[0]};
        },
        {&spec, 1});
  });
}

}  // namespace
}  // namespace mica
