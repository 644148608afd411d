#include "mica/nn/norms.h"

#include <algorithm>

#include "mica/core/check.h"
#include "mica/nn/init.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/group_norm/group_norm.h"
#include "mica/ops/layer_norm/layer_norm.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica::nn {
namespace {

void check_shape(const char* type, const Shape& shape) {
  check<ShapeError>(!shape.empty() && std::ranges::all_of(shape, [](int64_t n) { return n >= 1; }),
                    "nn::{}: shape must be the sizes of at least one axis, got {}", type, shape);
}

}  // namespace

LayerNormImpl::LayerNormImpl(const LayerNormOptions& o) : options(o) {
  check_shape("LayerNorm", o.shape);
  if (!o.affine) return;
  weight = parameter("weight", o.shape, init::constant(1));
  if (o.bias) bias = parameter("bias", o.shape, init::constant(0));
}

Tensor LayerNormImpl::forward(const Tensor& x) {
  return layer_norm(x, options.shape, weight, bias, options.eps);
}

LayerNorm2dImpl::LayerNorm2dImpl(const LayerNormOptions& o) : LayerNormImpl(o) {
  check<ShapeError>(o.shape.rank() == 1, "nn::LayerNorm2d: shape must be the channels, got {}",
                    o.shape);
}

Tensor LayerNorm2dImpl::forward(const Tensor& x) {
  check<ShapeError>(x.rank() == 4 && x.size(1) == options.shape[0],
                    "nn::LayerNorm2d: expected (N, {}, H, W), got {}", options.shape[0], x.shape());
  return permute(LayerNormImpl::forward(permute(x, {0, 2, 3, 1})), {0, 3, 1, 2});
}

RMSNormImpl::RMSNormImpl(const RMSNormOptions& o) : options(o) {
  check_shape("RMSNorm", o.shape);
  if (o.affine) weight = parameter("weight", o.shape, init::constant(1));
}

Tensor RMSNormImpl::forward(const Tensor& x) {
  return rms_norm(x, options.shape, weight, options.eps);
}

GroupNormImpl::GroupNormImpl(const GroupNormOptions& o) : options(o) {
  check(o.groups >= 1 && o.channels >= 1 && o.channels % o.groups == 0,
        "nn::GroupNorm: groups must divide channels, got {} and {}", o.groups, o.channels);
  if (!o.affine) return;
  weight = parameter("weight", {o.channels}, init::constant(1));
  bias = parameter("bias", {o.channels}, init::constant(0));
}

Tensor GroupNormImpl::forward(const Tensor& x) {
  return group_norm(x, weight, bias, {options.groups, options.eps});
}

std::string LayerNormImpl::describe() const { return nn::describe("LayerNorm", options); }
LayerNorm::LayerNorm(const LayerNormOptions& options) : Handle(options) {}
LayerNorm::LayerNorm(int64_t size) : Handle(LayerNormOptions{.shape = {size}}) {}
std::string LayerNorm2dImpl::describe() const { return nn::describe("LayerNorm2d", options); }
LayerNorm2d::LayerNorm2d(const LayerNormOptions& options) : Handle(options) {}
LayerNorm2d::LayerNorm2d(int64_t channels) : Handle(LayerNormOptions{.shape = {channels}}) {}
std::string RMSNormImpl::describe() const { return nn::describe("RMSNorm", options); }
RMSNorm::RMSNorm(const RMSNormOptions& options) : Handle(options) {}
RMSNorm::RMSNorm(int64_t size) : Handle(RMSNormOptions{.shape = {size}}) {}
std::string GroupNormImpl::describe() const { return nn::describe("GroupNorm", options); }
GroupNorm::GroupNorm(const GroupNormOptions& options) : Handle(options) {}
GroupNorm::GroupNorm(int64_t groups, int64_t channels)
    : Handle(GroupNormOptions{.groups = groups, .channels = channels}) {}

}  // namespace mica::nn
