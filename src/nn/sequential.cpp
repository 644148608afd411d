#include "mica/nn/sequential.h"

namespace mica::nn {

Tensor SequentialImpl::forward(const Tensor& x) {
  Tensor y = x;
  for (const auto& [name, module] : children()) y = module(y);
  return y;
}

}  // namespace mica::nn
