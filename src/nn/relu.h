#pragma once

#include "mica/nn/module.h"
#include "mica/ops/elementwise/elementwise.h"

namespace mica::nn {

struct ReLUImpl : ModuleImpl {
  Tensor forward(const Tensor& x) override { return relu(x); }
};
using ReLU = Handle<ReLUImpl>;

}  // namespace mica::nn
