#include "mica/nn/activations.h"

#include "mica/core/check.h"
#include "mica/nn/init.h"
#include "mica/ops/softmax/softmax.h"

namespace mica::nn {
namespace function {

Tensor softmax2d(const Tensor& x) {
  check<ShapeError>(x.rank() == 3 || x.rank() == 4,
                    "softmax2d: expected (N, C, H, W) or (C, H, W), got {}", x.shape());
  return softmax(x, -3);
}

}  // namespace function

PReLUImpl::PReLUImpl(const PReLUOptions& o) : options(o) {
  check(o.parameters >= 1, "nn::PReLU: parameters must be at least 1, got {}", o.parameters);
  weight = parameter("weight", {o.parameters}, init::constant(o.init));
}

PReLU::PReLU(const PReLUOptions& options) : Handle(options) {}
PReLU::PReLU(int64_t parameters) : Handle(PReLUOptions{.parameters = parameters}) {}

std::string PReLUImpl::describe() const { return nn::describe("PReLU", options); }

Module default_activation() { return ReLU(); }

}  // namespace mica::nn
