#pragma once

#include "mica/nn/module.h"
#include "mica/ops/view/view.h"

namespace mica::nn {

/// (N, …) to (N, the product of the others).
struct FlattenImpl : ModuleImpl {
  Tensor forward(const Tensor& x) override { return flatten(x, 1); }
};
using Flatten = Handle<FlattenImpl>;

}  // namespace mica::nn
