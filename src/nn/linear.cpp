#include "mica/nn/linear.h"

#include "mica/core/check.h"
#include "mica/nn/init.h"
#include "mica/ops/matmul/matmul.h"

namespace mica::nn {

LinearImpl::LinearImpl(const LinearOptions& o) : options(o) {
  check(o.in >= 1 && o.out >= 1, "nn::Linear: in and out must be at least 1, got {} and {}", o.in,
        o.out);
  weight = parameter("weight", {o.out, o.in}, init::fan_in_uniform(o.in));
  if (o.bias) bias = parameter("bias", {o.out}, init::fan_in_uniform(o.in));
}

Tensor LinearImpl::forward(const Tensor& x) { return linear(x, weight, bias); }

}  // namespace mica::nn
