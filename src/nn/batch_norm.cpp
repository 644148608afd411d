#include "mica/nn/batch_norm.h"

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/nn/init.h"
#include "mica/ops/batch_norm/batch_norm.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/group_norm/group_norm.h"
#include "mica/ops/view/leading_axis.h"

namespace mica::nn {

ChannelNormImpl::ChannelNormImpl(std::string type, int axes, const BatchNormOptions& o)
    : options(o), type_(std::move(type)), axes_(axes) {
  check(o.features >= 1, "nn::{}: features must be at least 1, got {}", type_, o.features);
  if (o.affine) {
    weight = parameter("weight", {o.features}, init::constant(1));
    bias = parameter("bias", {o.features}, init::constant(0));
  }
  if (o.track_running_stats) {
    running_mean = buffer("running_mean", zeros({o.features}));
    running_var = buffer("running_var", ones({o.features}));
    num_batches_tracked = buffer("num_batches_tracked", zeros({}, {.dtype = DType::i64}));
  }
}

DType ChannelNormImpl::kept_as(DType dtype) const {
  return dtype == DType::f64 ? DType::f64 : DType::f32;
}

void ChannelNormImpl::check_input(const Tensor& x) const {
  const bool fits = x.rank() == axes_ + 2 || (axes_ == 1 && x.rank() == 2);
  check<ShapeError>(fits && x.size(1) == options.features,
                    "nn::{}: expected (N, {}, {} more), got {}", type_, options.features,
                    axes_ == 1 ? "at most 1" : std::to_string(axes_), x.shape());
}

bool ChannelNormImpl::uses_input_stats() {
  if (!options.track_running_stats) return true;
  if (!training()) return false;
  const NoGrad guard;
  add_(num_batches_tracked, ones({}, {DType::i64, num_batches_tracked.device()}));
  return true;
}

template <int kAxes>
BatchNormImpl<kAxes>::BatchNormImpl(const BatchNormOptions& o)
    : ChannelNormImpl(fmt::format("BatchNorm{}d", kAxes), kAxes, o) {}

template <int kAxes>
Tensor BatchNormImpl<kAxes>::forward(const Tensor& x) {
  check_input(x);
  return batch_norm(x, weight, bias, running_mean, running_var,
                    {options.eps, options.momentum, uses_input_stats()});
}

template <int kAxes>
InstanceNormImpl<kAxes>::InstanceNormImpl(const InstanceNormLayerOptions& o)
    : ChannelNormImpl(fmt::format("InstanceNorm{}d", kAxes), kAxes,
                      {o.features, o.eps, o.momentum, o.affine, o.track_running_stats}) {}

template <int kAxes>
Tensor InstanceNormImpl<kAxes>::forward(const Tensor& x) {
  const bool batched = x.rank() == kAxes + 2;
  check<ShapeError>(
      (batched || x.rank() == kAxes + 1) && x.size(batched ? 1 : 0) == options.features,
      "nn::{}: expected (N, {}, {} more), or one without N, got {}", type_, options.features, kAxes,
      x.shape());
  return with_leading_axis(x, kAxes + 2, [&](const Tensor& images) {
    return instance_norm(images, running_mean, running_var, weight, bias,
                         {options.eps, options.momentum, uses_input_stats()});
  });
}

template <int kAxes>
std::string InstanceNormImpl<kAxes>::describe() const {
  const InstanceNormLayerOptions own = {options.features, options.eps, options.momentum,
                                        options.affine, options.track_running_stats};
  return nn::describe(type_, own);
}

template struct BatchNormImpl<1>;
template struct BatchNormImpl<2>;
template struct BatchNormImpl<3>;
template struct InstanceNormImpl<1>;
template struct InstanceNormImpl<2>;
template struct InstanceNormImpl<3>;

}  // namespace mica::nn
