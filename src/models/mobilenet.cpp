#include <algorithm>

#include "mica/models/blocks.h"
#include "mica/models/image_models.h"

namespace mica::models {
namespace {

/// Widens by 1×1, convolves each channel, and narrows by 1×1 without an activation.
nn::Module inverted_residual(int64_t in, int64_t out, int64_t stride, int64_t expand) {
  const int64_t wide = in * expand;
  nn::Sequential conv(nn::NamedModules{});
  if (expand != 1)
    conv.push_back(conv_norm_act({.in = in, .out = wide, .kernel = 1}, {nn::ReLU6()}));
  conv.push_back(conv_norm_act(
      {.in = wide, .out = wide, .kernel = 3, .stride = stride, .groups = wide}, {nn::ReLU6()}));
  conv.push_back(nn::Conv2d({.in = wide, .out = out, .kernel = 1, .bias = false}));
  conv.push_back(nn::BatchNorm2d(out));
  return in_a_row({{"conv", conv}}, stride == 1 && in == out);
}

/// A row of the table of MobileNetV3.
struct Row {
  int64_t kernel, wide, out;
  bool excites;  ///< has squeeze and excitation
  bool swish;    ///< Hardswish, else ReLU
  int64_t stride;
};

/// A multiple of 8 that is near n and at least 0.9 n.
int64_t divisible_by_8(int64_t n) {
  const int64_t near = std::max<int64_t>(8, (n + 4) / 8 * 8);
  return near * 10 < 9 * n ? near + 8 : near;
}

const nn::BatchNormOptions& norm_v3() {
  static const nn::BatchNormOptions options = {.eps = 0.001, .momentum = 0.01};
  return options;
}

nn::Module activation_of(bool swish) {
  return swish ? nn::Module(nn::Hardswish()) : nn::Module(nn::ReLU());
}

nn::Module inverted_residual_v3(int64_t in, const Row& r) {
  nn::Sequential block(nn::NamedModules{});
  if (r.wide != in)
    block.push_back(
        conv_norm_act({.in = in, .out = r.wide, .kernel = 1}, {activation_of(r.swish)}, norm_v3()));
  block.push_back(conv_norm_act(
      {.in = r.wide, .out = r.wide, .kernel = r.kernel, .stride = r.stride, .groups = r.wide},
      {activation_of(r.swish)}, norm_v3()));
  if (r.excites)
    block.push_back(nn::SqueezeExcitation({.channels = r.wide,
                                           .squeeze = divisible_by_8(r.wide / 4),
                                           .scale_activation = nn::Hardsigmoid()}));
  block.push_back(conv_norm_act({.in = r.wide, .out = r.out, .kernel = 1}, {}, norm_v3()));
  return in_a_row({{"block", block}}, r.stride == 1 && in == r.out);
}

nn::Module network(const nn::Sequential& features, const nn::Sequential& classifier) {
  nn::Module net = in_a_row({{"features", features},
                             {"avgpool", global_pool()},
                             {"flatten", nn::Flatten()},
                             {"classifier", classifier}});
  init_weights(net, init_fan_out, init_normal(0.01));
  return net;
}

}  // namespace

nn::Module mobilenet_v2(const ModelOptions& o) {
  struct Stage {
    int64_t expand, out, blocks, stride;
  };
  constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                               {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};
  int64_t in = 32;
  nn::Sequential features(
      conv_norm_act({.in = o.in, .out = in, .kernel = 3, .stride = 2}, {nn::ReLU6()}));
  for (const Stage& stage : kStages)
    for (int64_t i = 0; i < stage.blocks; ++i) {
      features.push_back(inverted_residual(in, stage.out, i == 0 ? stage.stride : 1, stage.expand));
      in = stage.out;
    }
  features.push_back(conv_norm_act({.in = in, .out = 1280, .kernel = 1}, {nn::ReLU6()}));
  return network(features, nn::Sequential(nn::Dropout(0.2), nn::Linear(1280, o.classes)));
}

nn::Module mobilenet_v3_large(const ModelOptions& o) {
  constexpr Row kRows[] = {
      {3, 16, 16, false, false, 1}, {3, 64, 24, false, false, 2}, {3, 72, 24, false, false, 1},
      {5, 72, 40, true, false, 2},  {5, 120, 40, true, false, 1}, {5, 120, 40, true, false, 1},
      {3, 240, 80, false, true, 2}, {3, 200, 80, false, true, 1}, {3, 184, 80, false, true, 1},
      {3, 184, 80, false, true, 1}, {3, 480, 112, true, true, 1}, {3, 672, 112, true, true, 1},
      {5, 672, 160, true, true, 2}, {5, 960, 160, true, true, 1}, {5, 960, 160, true, true, 1}};
  int64_t in = 16;
  nn::Sequential features(conv_norm_act({.in = o.in, .out = in, .kernel = 3, .stride = 2},
                                        {nn::Hardswish()}, norm_v3()));
  for (const Row& row : kRows) {
    features.push_back(inverted_residual_v3(in, row));
    in = row.out;
  }
  features.push_back(
      conv_norm_act({.in = in, .out = 6 * in, .kernel = 1}, {nn::Hardswish()}, norm_v3()));
  return network(features, nn::Sequential(nn::Linear(6 * in, 1280), nn::Hardswish(),
                                          nn::Dropout(0.2), nn::Linear(1280, o.classes)));
}

}  // namespace mica::models
