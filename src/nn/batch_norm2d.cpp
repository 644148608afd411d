#include "mica/nn/batch_norm2d.h"

#include "mica/core/check.h"
#include "mica/ops/batch_norm/batch_norm.h"
#include "mica/ops/fill/fill.h"

namespace mica::nn {

BatchNorm2dImpl::BatchNorm2dImpl(const BatchNorm2dOptions& o) : eps(o.eps), momentum(o.momentum) {
  check(o.features >= 1, "nn::BatchNorm2d: features must be at least 1, got {}", o.features);
  if (o.affine) {
    weight = parameter("weight", ones({o.features}));
    bias = parameter("bias", zeros({o.features}));
  }
  running_mean = buffer("running_mean", zeros({o.features}));
  running_var = buffer("running_var", ones({o.features}));
}

Tensor BatchNorm2dImpl::forward(const Tensor& x) {
  check<ShapeError>(x.rank() == 4, "nn::BatchNorm2d: expected (N, {}, H, W), got {}",
                    running_mean.size(0), x.shape());
  return batch_norm(x, weight, bias, running_mean, running_var, {eps, momentum, training()});
}

}  // namespace mica::nn
