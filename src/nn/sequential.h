#pragma once

#include "mica/nn/module.h"

namespace mica::nn {

/// One module after the other; the children are named "0", "1", ….
struct SequentialImpl : ModuleImpl {
  Tensor forward(const Tensor& x) override;
  void push_back(const Module& module) {
    register_module(std::to_string(children().size()), module);
  }
};

/// `Sequential{Linear(784, 100), ReLU(), Linear(100, 10)}`: braces, so that the layers are made,
/// and draw their weights, from left to right.
class Sequential : public Handle<SequentialImpl> {
 public:
  template <std::derived_from<Module>... Modules>
  explicit Sequential(const Modules&... modules) {
    ((*this)->push_back(modules), ...);
  }
};

}  // namespace mica::nn
