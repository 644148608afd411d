#include "mica/nn/conv_bn_act.h"

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/op/autocast.h"
#include "mica/op/dispatch.h"
#include "mica/ops/batch_norm/batch_norm_relu.h"
#include "mica/ops/elementwise/elementwise.h"

namespace mica::nn {
namespace {

/// Whether the norm and relu, called eagerly on CUDA to be differentiated, are one call: nobody is
/// to see what lies between. On the CPU the two are as fast.
bool joins(const Module& norm, const Module& activation, const Tensor& x) {
  const auto* bn = norm.as<BatchNorm2d>();
  const Tensor all[] = {x, bn->weight, bn->bias};
  return x.device().is_cuda() && !current_recorder() && !autocasts() && !detect_anomaly() &&
         dynamic_cast<const ReLU::Impl*>(activation.impl().get()) && !bn->is_watched() &&
         !activation.impl()->is_watched() && bn->training() && bn->options.track_running_stats &&
         bn->weight.defined() && grad_wanted(all);
}

Tensor joined(const Module& norm, const Tensor& x) {
  const auto* bn = norm.as<BatchNorm2d>();
  {
    const NoGrad guard;
    bn->num_batches_tracked.add_(1);
  }
  return batch_norm_relu(x, bn->weight, bn->bias, bn->running_mean, bn->running_var,
                         {bn->options.eps, bn->options.momentum, true});
}

}  // namespace

ConvBnAct2dImpl::ConvBnAct2dImpl(const ConvBnAct2dOptions& o)
    : ConvBnAct2dImpl(ConvBnAct2dParts{
          Conv2d({o.in, o.out, o.kernel, o.stride, o.padding, o.dilation, o.groups, o.bias}),
          BatchNorm2d({.features = o.out, .eps = o.eps, .momentum = o.momentum}), o.activation}) {}

ConvBnAct2dImpl::ConvBnAct2dImpl(const ConvBnAct2dParts& parts) {
  const int64_t out = parts.conv.as<Conv2d>()->options.out;
  const int64_t features = parts.bn.as<BatchNorm2d>()->options.features;
  check<ShapeError>(out == features,
                    "nn::ConvBnAct2d: the convolution has {} channels, the norm {}", out, features);
  register_module("conv", parts.conv);
  register_module("bn", parts.bn);
  register_module("act", parts.activation);
}

Tensor ConvBnAct2dImpl::forward(const Tensor& x, const Tensor& residual) {
  const auto parts = children();
  Tensor y = parts[0].second(x);
  if (!residual.defined() && joins(parts[1].second, parts[2].second, y))
    return joined(parts[1].second, y);
  y = parts[1].second(y);
  if (residual.defined()) {
    check<ShapeError>(residual.shape() == y.shape(),
                      "nn::ConvBnAct2d: the residual must have the result's shape {}, got {}",
                      y.shape(), residual.shape());
    y = y + residual;
  }
  return parts[2].second(y);
}

std::string ConvBnAct2dImpl::describe() const {
  const auto parts = children();
  return fmt::format("ConvBnAct2d({}, {})", parts[0].second.impl()->describe(),
                     parts[2].second.impl()->describe());
}

ConvBnAct2d::ConvBnAct2d(const ConvBnAct2dOptions& options) : Handle(options) {}
ConvBnAct2d::ConvBnAct2d(const Conv2d& conv, const BatchNorm2d& bn)
    : ConvBnAct2d(conv, bn, ReLU()) {}
ConvBnAct2d::ConvBnAct2d(const Conv2d& conv, const BatchNorm2d& bn, const Module& activation)
    : Handle(ConvBnAct2dParts{conv, bn, activation}) {}

}  // namespace mica::nn
