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

/// max(x, 0).
using ReLU = OpLayer<"ReLU", relu>;
/// ELU, scaled so that values keep mean 0 and deviation 1.
using SELU = OpLayer<"SELU", selu>;
/// x * sigmoid(x).
using SiLU = OpLayer<"SiLU", silu>;
/// x * tanh(softplus(x)).
using Mish = OpLayer<"Mish", mish>;
/// x * clamp(x + 3, 0, 6) / 6.
using Hardswish = OpLayer<"Hardswish", hardswish>;
/// clamp(x + 3, 0, 6) / 6.
using Hardsigmoid = OpLayer<"Hardsigmoid", hardsigmoid>;
/// 1 / (1 + exp(-x)).
using Sigmoid = OpLayer<"Sigmoid", sigmoid>;
/// log(sigmoid(x)).
using LogSigmoid = OpLayer<"LogSigmoid", log_sigmoid>;
/// tanh(x).
using Tanh = OpLayer<"Tanh", tanh>;

/// `LeakyReLU(0.2)` or `LeakyReLU({.slope = 0.2})`.
using LeakyReLU = OpLayer<"LeakyReLU", leaky_relu, LeakyReluParams>;
/// x, and below 0 alpha * (exp(x) - 1).
using ELU = OpLayer<"ELU", elu, EluParams>;
/// log(1 + exp(beta * x)) / beta.
using Softplus = OpLayer<"Softplus", softplus, SoftplusParams>;
/// x in [0, limit]: `ClippedReLU(4)`.
using ClippedReLU = OpLayer<"ClippedReLU", clipped_relu, double>;
/// Along an axis: `Softmax(1)`.
using Softmax = OpLayer<"Softmax", softmax, int64_t>;
/// log(softmax(x)) along an axis.
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

/// clamp(x, 0, 6).
using ReLU6 = OpLayer<"ReLU6", relu6>;
/// x / (1 + |x|).
using Softsign = OpLayer<"Softsign", softsign>;
/// x - tanh(x).
using Tanhshrink = OpLayer<"Tanhshrink", tanhshrink>;
/// softmax(-x) along an axis.
using Softmin = OpLayer<"Softmin", softmin, int64_t>;
/// `GELU()` or `GELU(GeluForm::tanh)`.
using GELU = OpLayer<"GELU", function::gelu, GELUOptions>;
/// x within two limits.
using Hardtanh = OpLayer<"Hardtanh", function::hardtanh, HardtanhOptions>;
/// x, and below 0 alpha * (exp(x / alpha) - 1).
using CELU = OpLayer<"CELU", function::celu, CELUOptions>;
/// One half of an axis times the sigmoid of the other.
using GLU = OpLayer<"GLU", function::glu, GLUOptions>;
/// x where |x| > lambda, else 0.
using Hardshrink = OpLayer<"Hardshrink", function::hardshrink, ShrinkOptions>;
/// x brought nearer to 0 by lambda.
using Softshrink = OpLayer<"Softshrink", function::softshrink, ShrinkOptions>;
/// `Threshold({.threshold = 0.1, .value = 20})`.
using Threshold = OpLayer<"Threshold", function::threshold, ThresholdOptions>;
/// Over the channels of (N, C, H, W).
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
