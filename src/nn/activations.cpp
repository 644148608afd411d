#include "mica/nn/activations.h"

#include "mica/core/check.h"
#include "mica/nn/init.h"

namespace mica::nn {

PReLUImpl::PReLUImpl(const PReLUOptions& o) : options(o) {
  check(o.parameters >= 1, "nn::PReLU: parameters must be at least 1, got {}", o.parameters);
  weight = parameter("weight", {o.parameters}, init::constant(o.init));
}

}  // namespace mica::nn
