#include "mica/nn/conv2d.h"

#include "mica/core/check.h"
#include "mica/nn/init.h"

namespace mica::nn {

Conv2dImpl::Conv2dImpl(const Conv2dOptions& o) : params{o.stride, o.padding, o.dilation, o.groups} {
  check(o.in >= 1 && o.out >= 1 && o.kernel.h >= 1 && o.kernel.w >= 1,
        "nn::Conv2d: in, out and kernel must be at least 1, got {}, {} and {} by {}", o.in, o.out,
        o.kernel.h, o.kernel.w);
  check(o.groups >= 1 && o.in % o.groups == 0 && o.out % o.groups == 0,
        "nn::Conv2d: groups must divide in = {} and out = {}, got {}", o.in, o.out, o.groups);
  const int64_t fan_in = o.in / o.groups * o.kernel.h * o.kernel.w;
  weight =
      parameter("weight", fan_in_uniform({o.out, o.in / o.groups, o.kernel.h, o.kernel.w}, fan_in));
  if (o.bias) bias = parameter("bias", fan_in_uniform({o.out}, fan_in));
}

Tensor Conv2dImpl::forward(const Tensor& x) { return conv2d(x, weight, bias, params); }

}  // namespace mica::nn
