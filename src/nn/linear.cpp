#include "mica/nn/linear.h"

#include "mica/core/check.h"
#include "mica/nn/init.h"
#include "mica/ops/einsum/einsum.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/matmul/matmul.h"

namespace mica::nn {

LinearImpl::LinearImpl(const LinearOptions& o) : options(o) {
  check(o.in >= 1 && o.out >= 1, "nn::Linear: in and out must be at least 1, got {} and {}", o.in,
        o.out);
  weight = parameter("weight", {o.out, o.in}, init::fan_in_uniform(o.in));
  if (o.bias) bias = parameter("bias", {o.out}, init::fan_in_uniform(o.in));
}

Tensor LinearImpl::forward(const Tensor& x) { return linear(x, weight, bias); }

BilinearImpl::BilinearImpl(const BilinearOptions& o) : options(o) {
  check(o.in1 >= 1 && o.in2 >= 1 && o.out >= 1,
        "nn::Bilinear: in1, in2 and out must be at least 1, got {}, {} and {}", o.in1, o.in2,
        o.out);
  weight = parameter("weight", {o.out, o.in1, o.in2}, init::fan_in_uniform(o.in1));
  if (o.bias) bias = parameter("bias", {o.out}, init::fan_in_uniform(o.in1));
}

Tensor BilinearImpl::forward(const Tensor& a, const Tensor& b) const {
  const Tensor y = einsum("...i,oij,...j->...o", {a, weight, b});
  return bias.defined() ? y + bias : y;
}

std::string LinearImpl::describe() const { return nn::describe("Linear", options); }
Linear::Linear(const LinearOptions& options) : Handle(options) {}
Linear::Linear(int64_t in, int64_t out) : Handle(LinearOptions{.in = in, .out = out}) {}
std::string BilinearImpl::describe() const { return nn::describe("Bilinear", options); }
Bilinear::Bilinear(const BilinearOptions& options) : Handle(options) {}

}  // namespace mica::nn
