#include "mica/nn/squeeze_excitation.h"

#include "mica/core/check.h"
#include "mica/nn/conv.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/reduce/reduce.h"

namespace mica::nn {

SqueezeExcitationImpl::SqueezeExcitationImpl(const SqueezeExcitationOptions& o)
    : channels_(o.channels), squeeze_(o.squeeze) {
  check(o.channels >= 1 && o.squeeze >= 1,
        "nn::SqueezeExcitation: channels and squeeze must be at least 1, got {} and {}", o.channels,
        o.squeeze);
  register_module("fc1", Conv2d({.in = o.channels, .out = o.squeeze, .kernel = 1}));
  register_module("activation", o.activation);
  register_module("fc2", Conv2d({.in = o.squeeze, .out = o.channels, .kernel = 1}));
  register_module("scale_activation", o.scale_activation);
}

Tensor SqueezeExcitationImpl::forward(const Tensor& x) {
  check<ShapeError>(x.rank() == 4 && x.size(1) == channels_,
                    "nn::SqueezeExcitation: expected (N, {}, H, W), got {}", channels_, x.shape());
  Tensor scale = mean(x, {2, 3}, true);
  for (const auto& [name, part] : children()) scale = part(scale);
  return scale * x;
}

std::string SqueezeExcitationImpl::describe() const {
  return fmt::format("SqueezeExcitation(channels={}, squeeze={})", channels_, squeeze_);
}

SqueezeExcitation::SqueezeExcitation(const SqueezeExcitationOptions& options) : Handle(options) {}

}  // namespace mica::nn
