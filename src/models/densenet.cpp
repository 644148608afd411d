#include "mica/core/check.h"
#include "mica/models/blocks.h"
#include "mica/models/image_models.h"
#include "mica/nn/init.h"
#include "mica/ops/ops.h"

namespace mica::models {
namespace {

constexpr int64_t kGrowth = 32;

/// Each layer reads the input and what all layers before it gave.
struct DenseBlockImpl : nn::SequentialImpl {
  Values call(const Values& inputs) override {
    Tensor all = inputs.tensor();
    for (const auto& [name, layer] : children()) all = concat({all, layer(all)}, 1);
    return all;
  }
};

nn::Conv2d conv(int64_t in, int64_t out, int64_t kernel) {
  return nn::Conv2d({.in = in, .out = out, .kernel = kernel, .padding = kernel / 2, .bias = false});
}

nn::Module dense_block(int64_t in, int64_t layers) {
  nn::Module block(std::make_shared<DenseBlockImpl>());
  for (int64_t i = 0; i < layers; ++i) {
    const int64_t channels = in + i * kGrowth;
    block.impl()->register_module(fmt::format("denselayer{}", i + 1),
                                  in_a_row({{"norm1", nn::BatchNorm2d(channels)},
                                            {"relu1", nn::ReLU()},
                                            {"conv1", conv(channels, 4 * kGrowth, 1)},
                                            {"norm2", nn::BatchNorm2d(4 * kGrowth)},
                                            {"relu2", nn::ReLU()},
                                            {"conv2", conv(4 * kGrowth, kGrowth, 3)}}));
  }
  return block;
}

}  // namespace

nn::Module densenet121(const ModelOptions& o) {
  constexpr int64_t kLayers[] = {6, 12, 24, 16};
  int64_t channels = 64;
  NamedParts features = {
      {"conv0",
       nn::Conv2d({.in = o.in, .out = 64, .kernel = 7, .stride = 2, .padding = 3, .bias = false})},
      {"norm0", nn::BatchNorm2d(64)},
      {"relu0", nn::ReLU()},
      {"pool0", nn::MaxPool2d({.kernel = 3, .stride = 2, .padding = 1})}};
  for (int i = 1; i <= 4; ++i) {
    features.emplace_back(fmt::format("denseblock{}", i), dense_block(channels, kLayers[i - 1]));
    channels += kLayers[i - 1] * kGrowth;
    if (i == 4) break;
    features.emplace_back(fmt::format("transition{}", i),
                          in_a_row({{"norm", nn::BatchNorm2d(channels)},
                                    {"relu", nn::ReLU()},
                                    {"conv", conv(channels, channels / 2, 1)},
                                    {"pool", nn::AvgPool2d(2)}}));
    channels /= 2;
  }
  features.emplace_back("norm5", nn::BatchNorm2d(channels));
  nn::Module net = in_a_row({{"features", in_a_row(features)},
                             {"relu", nn::ReLU()},
                             {"avgpool", global_pool()},
                             {"flatten", nn::Flatten()},
                             {"classifier", nn::Linear(channels, o.classes)}});
  init_weights(net, [](const Tensor& weight) { nn::init::kaiming_normal_(weight); }, {});
  return net;
}

}  // namespace mica::models
