#include <algorithm>
#include <cmath>

#include "mica/models/blocks.h"
#include "mica/models/image_models.h"
#include "mica/nn/init.h"

namespace mica::models {
namespace {

struct Stage {
  int64_t expand, kernel, stride, in, out, blocks;
};
constexpr Stage kStages[] = {{1, 3, 1, 32, 16, 1},  {6, 3, 2, 16, 24, 2},  {6, 5, 2, 24, 40, 2},
                             {6, 3, 2, 40, 80, 3},  {6, 5, 1, 80, 112, 3}, {6, 5, 2, 112, 192, 4},
                             {6, 3, 1, 192, 320, 1}};
constexpr int64_t kBlocks = 16;
constexpr double kDropped = 0.2;  // of the last block; the first drops nothing

/// Calls f(stage, in, stride, probability of dropping) for every block.
template <class F>
void for_each_block(F&& f) {
  int64_t number = 0;
  for (const Stage& stage : kStages)
    for (int64_t i = 0; i < stage.blocks; ++i, ++number)
      f(stage, i == 0 ? stage.in : stage.out, i == 0 ? stage.stride : 1,
        kDropped * static_cast<double>(number) / kBlocks);
}

nn::Module mbconv(const Stage& s, int64_t in, int64_t stride, double dropped) {
  const int64_t wide = in * s.expand;
  nn::Sequential block(nn::NamedModules{});
  if (s.expand != 1)
    block.push_back(conv_norm_act({.in = in, .out = wide, .kernel = 1}, {nn::SiLU()}));
  block.push_back(
      conv_norm_act({.in = wide, .out = wide, .kernel = s.kernel, .stride = stride, .groups = wide},
                    {nn::SiLU()}));
  block.push_back(nn::SqueezeExcitation(
      {.channels = wide, .squeeze = std::max<int64_t>(1, in / 4), .activation = nn::SiLU()}));
  block.push_back(conv_norm_act({.in = wide, .out = s.out, .kernel = 1}, {}));
  if (stride != 1 || in != s.out) return in_a_row({{"block", block}});
  return in_a_row({{"block", block}, {"stochastic_depth", nn::StochasticDepth(dropped)}}, true);
}

void init_by_outputs(const Tensor& weight) {
  const double bound = 1 / std::sqrt(static_cast<double>(weight.size(0)));
  nn::init::uniform_(weight, -bound, bound);
}

/// TensorFlow's "SAME" for images whose sides are even: what is odd goes to the end.
nn::Conv2d same_conv(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1,
                     int64_t groups = 1) {
  const int64_t whole = kernel - stride;
  return nn::Conv2d({.in = in,
                     .out = out,
                     .kernel = kernel,
                     .stride = stride,
                     .padding = Padding<Size2>::sides(whole / 2, whole - whole / 2),
                     .groups = groups,
                     .bias = false});
}

nn::BatchNorm2d lite_norm(int64_t channels) {
  return nn::BatchNorm2d({.features = channels, .eps = 1e-3, .momentum = 0.01});
}

nn::Module lite_block(const Stage& s, int64_t in, int64_t stride, double dropped) {
  const int64_t wide = in * s.expand;
  NamedParts parts;
  if (s.expand != 1)
    parts = {{"_expand_conv", same_conv(in, wide, 1)},
             {"_bn0", lite_norm(wide)},
             {"_relu0", nn::ReLU6()}};
  const NamedParts rest = {{"_depthwise_conv", same_conv(wide, wide, s.kernel, stride, wide)},
                           {"_bn1", lite_norm(wide)},
                           {"_relu1", nn::ReLU6()},
                           {"_project_conv", same_conv(wide, s.out, 1)},
                           {"_bn2", lite_norm(s.out)}};
  parts.insert(parts.end(), rest.begin(), rest.end());
  const bool residual = stride == 1 && in == s.out;
  if (residual) parts.emplace_back("_drop_connect", nn::StochasticDepth(dropped));
  return in_a_row(parts, residual);
}

}  // namespace

nn::Module efficientnet_b0(const ModelOptions& o) {
  nn::Sequential features(
      conv_norm_act({.in = o.in, .out = 32, .kernel = 3, .stride = 2}, {nn::SiLU()}));
  nn::Sequential blocks(nn::NamedModules{});
  const Stage* current = kStages;
  for_each_block([&](const Stage& stage, int64_t in, int64_t stride, double dropped) {
    if (&stage != current) {
      features.push_back(blocks);
      blocks = nn::Sequential(nn::NamedModules{});
      current = &stage;
    }
    blocks.push_back(mbconv(stage, in, stride, dropped));
  });
  features.push_back(blocks);
  features.push_back(conv_norm_act({.in = 320, .out = 1280, .kernel = 1}, {nn::SiLU()}));
  nn::Module net =
      in_a_row({{"features", features},
                {"avgpool", global_pool()},
                {"flatten", nn::Flatten()},
                {"classifier", nn::Sequential(nn::Dropout(0.2), nn::Linear(1280, o.classes))}});
  init_weights(net, init_fan_out, init_by_outputs);
  return net;
}

nn::Module efficientnet_lite0(const ModelOptions& o) {
  nn::Sequential blocks(nn::NamedModules{});
  for_each_block([&](const Stage& stage, int64_t in, int64_t stride, double dropped) {
    blocks.push_back(lite_block(stage, in, stride, dropped));
  });
  return in_a_row({{"_conv_stem", same_conv(o.in, 32, 3, 2)},
                   {"_bn0", lite_norm(32)},
                   {"_relu0", nn::ReLU6()},
                   {"_blocks", blocks},
                   {"_conv_head", same_conv(320, 1280, 1)},
                   {"_bn1", lite_norm(1280)},
                   {"_relu1", nn::ReLU6()},
                   {"_avg_pooling", global_pool()},
                   {"_flatten", nn::Flatten()},
                   {"_dropout", nn::Dropout(0.2)},
                   {"_fc", nn::Linear(1280, o.classes)}});
}

}  // namespace mica::models
