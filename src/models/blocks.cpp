#include "mica/models/blocks.h"

#include "mica/nn/init.h"
#include "mica/ops/ops.h"

namespace mica::models {
namespace {

Tensor channel_means(const Tensor& x) { return mean(x, {2, 3}, true); }

}  // namespace

Values ResidualImpl::call(const Values& inputs) {
  return nn::SequentialImpl::call(inputs).tensor() + inputs.tensor();
}

nn::Module in_a_row(const NamedParts& parts, bool residual) {
  const nn::Module row = residual ? nn::Module(std::make_shared<ResidualImpl>())
                                  : nn::Module(std::make_shared<nn::SequentialImpl>());
  for (const auto& [name, part] : parts) row.impl()->register_module(name, part);
  return row;
}

nn::Module conv_norm_act(nn::Conv2dOptions conv, const std::vector<nn::Module>& activation,
                         nn::BatchNormOptions norm) {
  conv.padding =
      Size2((conv.kernel.h - 1) / 2 * conv.dilation.h, (conv.kernel.w - 1) / 2 * conv.dilation.w);
  conv.bias = false;
  norm.features = conv.out;
  nn::Sequential row(nn::NamedModules{});
  row.push_back(nn::Conv2d(conv));
  row.push_back(nn::BatchNorm2d(norm));
  for (const nn::Module& layer : activation) row.push_back(layer);
  return row;
}

nn::Module global_pool() { return nn::OpLayer<"GlobalAvgPool2d", channel_means>(); }

void init_weights(const nn::Module& net, const nn::Initializer& convolution,
                  const nn::Initializer& linear) {
  net.apply([&](const nn::Module& module) {
    nn::ModuleImpl* impl = module.impl().get();
    if (auto* conv = dynamic_cast<nn::Conv2d::Impl*>(impl)) {
      convolution(conv->weight);
      if (conv->bias.defined()) nn::init::zeros_(conv->bias);
    } else if (auto* layer = dynamic_cast<nn::Linear::Impl*>(impl)) {
      if (linear) linear(layer->weight);
      nn::init::zeros_(layer->bias);
    }
  });
}

void init_fan_out(const Tensor& weight) {
  nn::init::kaiming_normal_(weight, {.mode = nn::init::FanMode::out});
}

nn::Initializer init_normal(double std) {
  return [std](const Tensor& weight) { nn::init::normal_(weight, 0, std); };
}

}  // namespace mica::models
