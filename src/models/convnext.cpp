#include "mica/models/blocks.h"
#include "mica/models/image_models.h"
#include "mica/nn/init.h"
#include "mica/ops/ops.h"

namespace mica::models {
namespace {

nn::LayerNorm2d norm(int64_t channels) {
  return nn::LayerNorm2d({.shape = {channels}, .eps = 1e-6});
}

/// A convolution of each channel, then two linear layers over the channels; scaled, dropped at
/// times, and added to the input.
struct CNBlockImpl : nn::ModuleImpl {
  CNBlockImpl(int64_t channels, double dropped)
      : scale_(parameter("layer_scale", full({channels, 1, 1}, 1e-6))),
        block_(add("block",
                   nn::Sequential(nn::Conv2d({.in = channels,
                                              .out = channels,
                                              .kernel = 7,
                                              .padding = 3,
                                              .groups = channels}),
                                  nn::Permute({0, 2, 3, 1}),
                                  nn::LayerNorm({.shape = {channels}, .eps = 1e-6}),
                                  nn::Linear(channels, 4 * channels), nn::GELU(),
                                  nn::Linear(4 * channels, channels), nn::Permute({0, 3, 1, 2})))),
        drop_(add("stochastic_depth", nn::StochasticDepth(dropped))) {}

  Tensor forward(const Tensor& x) { return drop_(scale_ * block_(x)) + x; }
  std::string describe() const override { return "CNBlock()"; }

 private:
  Tensor scale_;  // (C, 1, 1)
  nn::Sequential block_;
  nn::StochasticDepth drop_;
};

}  // namespace

nn::Module convnext_tiny(const ModelOptions& o) {
  constexpr int64_t kBlocks[] = {3, 3, 9, 3};
  constexpr double kDropped = 0.1;  // of the last block; the first drops nothing
  int64_t channels = 96;
  nn::Sequential features(nn::NamedModules{});
  features.push_back(nn::Sequential(
      nn::Conv2d({.in = o.in, .out = channels, .kernel = 4, .stride = 4}), norm(channels)));
  int64_t number = 0;
  for (size_t stage = 0; stage < 4; ++stage) {
    nn::Sequential blocks(nn::NamedModules{});
    for (int64_t i = 0; i < kBlocks[stage]; ++i, ++number)
      blocks.push_back(
          nn::Handle<CNBlockImpl>(channels, kDropped * static_cast<double>(number) / 17));
    features.push_back(blocks);
    if (stage == 3) break;
    features.push_back(nn::Sequential(
        norm(channels),
        nn::Conv2d({.in = channels, .out = 2 * channels, .kernel = 2, .stride = 2})));
    channels *= 2;
  }
  nn::Module net = in_a_row({{"features", features},
                             {"avgpool", global_pool()},
                             {"classifier", nn::Sequential(norm(channels), nn::Flatten(),
                                                           nn::Linear(channels, o.classes))}});
  const auto init = [](const Tensor& weight) { nn::init::trunc_normal_(weight, {.std = 0.02}); };
  init_weights(net, init, init);
  return net;
}

}  // namespace mica::models
