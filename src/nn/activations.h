#pragma once

#include "mica/nn/op_layer.h"
#include "mica/ops/activation/activation.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/hardswish/hardswish.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/softmax/softmax.h"
#include "mica/ops/where/where.h"

namespace mica::nn {

using ReLU = OpLayer<"ReLU", relu>;
using SELU = OpLayer<"SELU", selu>;
using SiLU = OpLayer<"SiLU", silu>;
using Mish = OpLayer<"Mish", mish>;
using Hardswish = OpLayer<"Hardswish", hardswish>;
using Hardsigmoid = OpLayer<"Hardsigmoid", hardsigmoid>;
using Sigmoid = OpLayer<"Sigmoid", sigmoid>;
using LogSigmoid = OpLayer<"LogSigmoid", log_sigmoid>;
using Tanh = OpLayer<"Tanh", tanh>;

/// `LeakyReLU(0.2)` or `LeakyReLU({.slope = 0.2})`.
using LeakyReLU = OpLayer<"LeakyReLU", leaky_relu, LeakyReluParams>;
using ELU = OpLayer<"ELU", elu, EluParams>;
using Softplus = OpLayer<"Softplus", softplus, SoftplusParams>;
/// x in [0, limit]: `ClippedReLU(4)`.
using ClippedReLU = OpLayer<"ClippedReLU", clipped_relu, double>;
/// Along an axis: `Softmax(1)`.
using Softmax = OpLayer<"Softmax", softmax, int64_t>;
using LogSoftmax = OpLayer<"LogSoftmax", log_softmax, int64_t>;

template <>
inline std::string text_of(const GeluForm& form) {
  return form == GeluForm::tanh ? "tanh" : "erf";
}

struct GELUOptions {
  GeluForm form = GeluForm::erf;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("form", self.form);
  }
};

struct HardtanhOptions {
  double low = -1;
  double high = 1;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("low", self.low);
    f("high", self.high);
  }
};

namespace function {

inline Tensor relu6(const Tensor& x) { return clipped_relu(x, 6.0); }
inline Tensor softsign(const Tensor& x) { return x / (abs(x) + 1.0); }
inline Tensor tanhshrink(const Tensor& x) { return x - tanh(x); }
inline Tensor softmin(const Tensor& x, int64_t axis) { return softmax(-x, axis); }
inline Tensor gelu(const Tensor& x, const GELUOptions& o) { return mica::gelu(x, o.form); }
inline Tensor hardtanh(const Tensor& x, const HardtanhOptions& o) {
  return clamp(x, o.low, o.high);
}

}  // namespace function

using ReLU6 = OpLayer<"ReLU6", function::relu6>;
using Softsign = OpLayer<"Softsign", function::softsign>;
using Tanhshrink = OpLayer<"Tanhshrink", function::tanhshrink>;
using Softmin = OpLayer<"Softmin", function::softmin, int64_t>;
/// `GELU()` or `GELU(GeluForm::tanh)`.
using GELU = OpLayer<"GELU", function::gelu, GELUOptions>;
using Hardtanh = OpLayer<"Hardtanh", function::hardtanh, HardtanhOptions>;

struct PReLUOptions {
  int64_t parameters = 1;  ///< one, or one for each channel
  double init = 0.25;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("parameters", self.parameters);
    f("init", self.init);
  }
};

/// x where it is positive, else weight * x.
struct PReLUImpl : ModuleImpl {
  explicit PReLUImpl(const PReLUOptions& options);
  Tensor forward(const Tensor& x) override { return prelu(x, weight); }
  std::string describe() const override { return nn::describe("PReLU", options); }

  const PReLUOptions options;
  Tensor weight;  ///< (parameters)
};

class PReLU : public Handle<PReLUImpl> {
 public:
  explicit PReLU(const PReLUOptions& options = {}) : Handle(options) {}
  explicit PReLU(int64_t parameters) : Handle(PReLUOptions{.parameters = parameters}) {}
};

}  // namespace mica::nn
