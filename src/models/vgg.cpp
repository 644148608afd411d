#include "mica/models/blocks.h"
#include "mica/models/image_models.h"

namespace mica::models {
namespace {

/// A pooling after each group of convolutions of 3×3.
using Groups = std::vector<std::vector<int64_t>>;

nn::Module vgg(const Groups& groups, bool norm, const ModelOptions& o) {
  nn::Sequential features(nn::NamedModules{});
  int64_t in = o.in;
  for (const std::vector<int64_t>& group : groups) {
    for (const int64_t out : group) {
      features.push_back(nn::Conv2d({.in = in, .out = out, .kernel = 3, .padding = 1}));
      if (norm) features.push_back(nn::BatchNorm2d(out));
      features.push_back(nn::ReLU());
      in = out;
    }
    features.push_back(nn::MaxPool2d(2));
  }
  const nn::Sequential classifier(nn::Linear(in * 7 * 7, 4096), nn::ReLU(), nn::Dropout(0.5),
                                  nn::Linear(4096, 4096), nn::ReLU(), nn::Dropout(0.5),
                                  nn::Linear(4096, o.classes));
  nn::Module net = in_a_row({{"features", features},
                             {"avgpool", nn::AdaptiveAvgPool2d(7)},
                             {"flatten", nn::Flatten()},
                             {"classifier", classifier}});
  init_weights(net, init_fan_out, init_normal(0.01));
  return net;
}

const Groups& groups11() {
  static const Groups all = {{64}, {128}, {256, 256}, {512, 512}, {512, 512}};
  return all;
}
const Groups& groups16() {
  static const Groups all = {
      {64, 64}, {128, 128}, {256, 256, 256}, {512, 512, 512}, {512, 512, 512}};
  return all;
}

}  // namespace

nn::Module vgg11(const ModelOptions& o) { return vgg(groups11(), false, o); }
nn::Module vgg11_bn(const ModelOptions& o) { return vgg(groups11(), true, o); }
nn::Module vgg16(const ModelOptions& o) { return vgg(groups16(), false, o); }
nn::Module vgg16_bn(const ModelOptions& o) { return vgg(groups16(), true, o); }

}  // namespace mica::models
