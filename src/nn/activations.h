#pragma once

#include "mica/nn/op_layer.h"
#include "mica/ops/activation/activation.h"
#include "mica/ops/activation/compositions.h"
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

struct CELUOptions {
  double alpha = 1;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("alpha", self.alpha);
  }
};

struct GLUOptions {
  int64_t axis = -1;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("axis", self.axis);
  }
};

struct ShrinkOptions {
  double lambd = 0.5;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("lambd", self.lambd);
  }
};

struct ThresholdOptions {
  double threshold = 0;
  double value = 0;  ///< of what is not above the threshold

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("threshold", self.threshold);
    f("value", self.value);
  }
};

namespace function {

// What layers call with their options.
inline Tensor gelu(const Tensor& x, const GELUOptions& o) { return mica::gelu(x, o.form); }
inline Tensor hardtanh(const Tensor& x, const HardtanhOptions& o) {
  return mica::hardtanh(x, o.low, o.high);
}
inline Tensor celu(const Tensor& x, const CELUOptions& o) { return mica::celu(x, o.alpha); }
inline Tensor glu(const Tensor& x, const GLUOptions& o) { return mica::glu(x, o.axis); }
inline Tensor hardshrink(const Tensor& x, const ShrinkOptions& o) {
  return mica::hardshrink(x, o.lambd);
}
inline Tensor softshrink(const Tensor& x, const ShrinkOptions& o) {
  return mica::softshrink(x, o.lambd);
}
inline Tensor threshold(const Tensor& x, const ThresholdOptions& o) {
  return mica::threshold(x, o.threshold, o.value);
}
/// Softmax over the channels of x (N, C, H, W) or (C, H, W).
Tensor softmax2d(const Tensor& x);

}  // namespace function

using ReLU6 = OpLayer<"ReLU6", relu6>;
using Softsign = OpLayer<"Softsign", softsign>;
using Tanhshrink = OpLayer<"Tanhshrink", tanhshrink>;
using Softmin = OpLayer<"Softmin", softmin, int64_t>;
/// `GELU()` or `GELU(GeluForm::tanh)`.
using GELU = OpLayer<"GELU", function::gelu, GELUOptions>;
using Hardtanh = OpLayer<"Hardtanh", function::hardtanh, HardtanhOptions>;
using CELU = OpLayer<"CELU", function::celu, CELUOptions>;
using GLU = OpLayer<"GLU", function::glu, GLUOptions>;
using Hardshrink = OpLayer<"Hardshrink", function::hardshrink, ShrinkOptions>;
using Softshrink = OpLayer<"Softshrink", function::softshrink, ShrinkOptions>;
/// `Threshold({.threshold = 0.1, .value = 20})`.
using Threshold = OpLayer<"Threshold", function::threshold, ThresholdOptions>;
using Softmax2d = OpLayer<"Softmax2d", function::softmax2d>;

/// ReLU: what layers have between their parts unless they are given another.
Module default_activation();

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
  Tensor forward(const Tensor& x) { return prelu(x, weight); }
  std::string describe() const override;

  const PReLUOptions options;
  Parameter weight{this, "weight"};  ///< (parameters)
};

class PReLU : public Handle<PReLUImpl> {
 public:
  template <std::same_as<std::nullptr_t> Nothing>
  PReLU(Nothing) : Handle(nullptr) {}
  explicit PReLU(const PReLUOptions& options = {});
  explicit PReLU(int64_t parameters);
};

}  // namespace mica::nn
