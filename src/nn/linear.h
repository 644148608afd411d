#pragma once

#include "mica/nn/describe.h"
#include "mica/nn/module.h"

namespace mica::nn {

struct LinearOptions {
  int64_t in = 0;
  int64_t out = 0;
  bool bias = true;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("in", self.in);
    f("out", self.out);
    f("bias", self.bias);
  }
};

struct LinearImpl : ModuleImpl {
  explicit LinearImpl(const LinearOptions& options);
  /// (…, in) to (…, out).
  Tensor forward(const Tensor& x) override;
  std::string describe() const override { return nn::describe("Linear", options); }

  const LinearOptions options;
  Tensor weight;  ///< (out, in)
  Tensor bias;    ///< (out), or undefined
};

/// `Linear(800, 500)` or `Linear({.in = 800, .out = 500, .bias = false})`.
class Linear : public Handle<LinearImpl> {
 public:
  explicit Linear(const LinearOptions& options) : Handle(options) {}
  Linear(int64_t in, int64_t out) : Handle(LinearOptions{.in = in, .out = out}) {}
};

}  // namespace mica::nn
