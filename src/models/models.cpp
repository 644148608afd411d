#include "mica/models/models.h"

#include "mica/core/check.h"
#include "mica/models/resnet.h"
#include "mica/nn/nn.h"

namespace mica::models {

nn::Sequential mlp(const MlpOptions& o) {
  nn::Sequential net(nn::Flatten{});
  int64_t width = o.in;
  for (const int64_t next : o.hidden) {
    net.push_back(nn::Linear(width, next));
    if (o.activation == Activation::relu) net.push_back(nn::ReLU());
    if (o.activation == Activation::gelu) net.push_back(nn::GELU());
    width = next;
  }
  net.push_back(nn::Linear(width, o.classes));
  return net;
}

nn::Sequential cnn(const CnnOptions& o) {
  nn::Sequential net(nn::NamedModules{});
  int64_t in = o.in;
  int64_t side = o.side;
  for (const int64_t out : o.channels) {
    net.push_back(nn::Conv2d({.in = in, .out = out, .kernel = 3, .padding = 1, .bias = o.bias}));
    net.push_back(nn::ReLU());
    net.push_back(nn::MaxPool2d(2));
    in = out;
    side /= 2;
  }
  net.push_back(nn::Flatten());
  net.push_back(nn::Linear({.in = in * side * side, .out = o.classes, .bias = o.bias}));
  return net;
}

nn::Sequential simple_cnn() { return cnn({.in = 1, .side = 28, .channels = {16}, .bias = false}); }

nn::Sequential lenet() {
  return nn::Sequential(nn::Conv2d({.in = 1, .out = 20, .kernel = 5}),   // (N, 20, 24, 24)
                        nn::MaxPool2d(2),                                // (N, 20, 12, 12)
                        nn::Conv2d({.in = 20, .out = 50, .kernel = 5}),  // (N, 50, 8, 8)
                        nn::MaxPool2d(2),                                // (N, 50, 4, 4)
                        nn::Flatten(), nn::Linear(800, 500), nn::ReLU(), nn::Linear(500, 10));
}

nn::Sequential lenet6() {
  return nn::Sequential(nn::Conv2d({.in = 1, .out = 6, .kernel = 5}),   // (N, 6, 24, 24)
                        nn::ReLU(), nn::MaxPool2d(2),                   // (N, 6, 12, 12)
                        nn::Conv2d({.in = 6, .out = 16, .kernel = 5}),  // (N, 16, 8, 8)
                        nn::ReLU(), nn::MaxPool2d(2),                   // (N, 16, 4, 4)
                        nn::Flatten(), nn::Linear(256, 120), nn::ReLU(), nn::Linear(120, 10));
}

nn::Sequential mnist_net() {
  return nn::Sequential({{"conv1", nn::Conv2d({.in = 1, .out = 32, .kernel = 3})},
                         {"relu1", nn::ReLU()},
                         {"conv2", nn::Conv2d({.in = 32, .out = 64, .kernel = 3})},
                         {"relu2", nn::ReLU()},
                         {"pool", nn::MaxPool2d(2)},
                         {"dropout1", nn::Dropout(0.25)},
                         {"flatten", nn::Flatten()},
                         {"fc1", nn::Linear(64 * 12 * 12, 128)},
                         {"relu3", nn::ReLU()},
                         {"dropout2", nn::Dropout(0.5)},
                         {"fc2", nn::Linear(128, 10)}});
}

namespace {

struct Small {
  const char* name;
  nn::Sequential (*make)();
};
constexpr Small kSmall[] = {{"mlp", [] { return mlp(); }},
                            {"simple_cnn", simple_cnn},
                            {"lenet", lenet},
                            {"lenet6", lenet6},
                            {"mnist_net", mnist_net}};

struct ForImages {
  const char* name;
  nn::Module (*make)(const ModelOptions&);
};
constexpr ForImages kForImages[] = {{"resnet18", resnet18},
                                    {"resnet34", resnet34},
                                    {"resnet50", resnet50},
                                    {"resnet101", resnet101},
                                    {"resnet152", resnet152},
                                    {"vgg11", vgg11},
                                    {"vgg11_bn", vgg11_bn},
                                    {"vgg16", vgg16},
                                    {"vgg16_bn", vgg16_bn},
                                    {"mobilenet_v2", mobilenet_v2},
                                    {"mobilenet_v3_large", mobilenet_v3_large},
                                    {"densenet121", densenet121},
                                    {"efficientnet_b0", efficientnet_b0},
                                    {"efficientnet_lite0", efficientnet_lite0},
                                    {"convnext_tiny", convnext_tiny},
                                    {"vit_b_16", vit_b_16}};

nn::Module make_named(std::string_view name, const ModelOptions* options) {
  for (const Small& entry : kSmall) {
    if (entry.name != name) continue;
    check(!options || (options->classes == 10 && options->in == 1),
          "models: {} is for 10 classes and images of 1 channel, not for {} and {}", name,
          options ? options->classes : 0, options ? options->in : 0);
    return entry.make();
  }
  for (const ForImages& entry : kForImages)
    if (entry.name == name) return entry.make(options ? *options : ModelOptions());
  std::string known;
  for (const std::string& one : names()) known += (known.empty() ? "" : ", ") + one;
  fail("models: there is no model '{}'; there are {}", name, known);
}

}  // namespace

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const Small& entry : kSmall) all.emplace_back(entry.name);
  for (const ForImages& entry : kForImages) all.emplace_back(entry.name);
  return all;
}

nn::Module make(std::string_view name) { return make_named(name, nullptr); }
nn::Module make(std::string_view name, const ModelOptions& options) {
  return make_named(name, &options);
}

}  // namespace mica::models
