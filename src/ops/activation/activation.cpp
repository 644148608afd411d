#include "mica/ops/activation/activation.h"

#include "mica/op/composition.h"
#include "mica/op/function.h"
#include "mica/ops/activation/functors.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/elementwise/calls.h"
#include "mica/ops/elementwise/cpu.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/view/view.h"
#include "mica/ops/where/where.h"

namespace mica {

const OpDef& leaky_relu_grad_op();
const OpDef& elu_grad_op();
const OpDef& selu_grad_op();
const OpDef& gelu_grad_op();
const OpDef& gelu_tanh_grad_op();
const OpDef& silu_grad_op();
const OpDef& softplus_grad_op();
const OpDef& hardsigmoid_grad_op();
const OpDef& mish_grad_op();

namespace {

using namespace elementwise;

// What each gradient op computes of dy = in[0] and x = in[1], with other ops: its own gradient
// follows from it.

Tensors leaky_relu_grad_parts(const LeakyReluParams& p, std::span<const Tensor> in) {
  return {where(gt(in[1], 0.0), in[0], mul(in[0], p.slope))};
}
Tensors elu_grad_parts(const EluParams& p, std::span<const Tensor> in) {
  return {where(gt(in[1], 0.0), in[0], mul(in[0], mul(exp(minimum(in[1], 0.0)), p.alpha)))};
}
Tensors selu_grad_parts(const NoParams&, std::span<const Tensor> in) {
  return {mul(
      where(gt(in[1], 0.0), in[0], mul(in[0], mul(exp(minimum(in[1], 0.0)), functor::kSeluAlpha))),
      functor::kSeluScale)};
}
Tensors gelu_grad_parts(const NoParams&, std::span<const Tensor> in) {
  return {mul(in[0], add(mul(add(erf(mul(in[1], functor::kSqrtHalf)), 1.0), 0.5),
                         mul(mul(in[1], functor::kInvSqrt2Pi), exp(mul(square(in[1]), -0.5)))))};
}
Tensors gelu_tanh_grad_parts(const NoParams&, std::span<const Tensor> in) {
  const Tensor& x = in[1];
  const double c = 2 * functor::kSqrt2OverPi;
  const Tensor v = mul(add(x, mul(mul(square(x), x), functor::kGeluCubic)), c);
  const Tensor s = sigmoid(v);
  const Tensor slope = mul(add(mul(square(x), 3 * functor::kGeluCubic), 1.0), c);
  return {mul(in[0], add(s, mul(mul(x, mul(s, sigmoid(neg(v)))), slope)))};
}
Tensors silu_grad_parts(const NoParams&, std::span<const Tensor> in) {
  const Tensor s = sigmoid(in[1]);
  return {mul(in[0], mul(s, add(mul(in[1], sub(1.0, s)), 1.0)))};
}
Tensors softplus_grad_parts(const SoftplusParams& p, std::span<const Tensor> in) {
  const Tensor scaled = mul(in[1], p.beta);
  return {where(gt(scaled, p.threshold), in[0], mul(in[0], sigmoid(scaled)))};
}
Tensors hardsigmoid_grad_parts(const NoParams&, std::span<const Tensor> in) {
  return {where(logical_and(gt(in[1], -3.0), lt(in[1], 3.0)), div(in[0], 6.0), 0.0)};
}
Tensors mish_grad_parts(const NoParams&, std::span<const Tensor> in) {
  const Tensor& x = in[1];
  const Tensor t = tanh(softplus(x));
  return {mul(in[0], add(t, mul(mul(x, sigmoid(x)), sub(1.0, square(t)))))};
}

/// An activation whose gradient is an op of its own with the same parameters.
template <class F, class P, const OpDef& (*grad_op)()>
OpDef activation(const char* name, Precision precision = Precision::any) {
  constexpr auto kVjp = [](const ParamsOf<F>& p, const VjpArgs& a) -> Tensors {
    return {dispatch(grad_op(), static_cast<const P&>(p), {a.grad[0], a.in[0]})[0]};
  };
  return wide_elementwise_op<F>(name).template vjp<kVjp>({.in = {0}}).precision(precision).build();
}
template <class F, class P, auto parts>
OpDef activation_grad(const char* name) {
  constexpr auto kVjp = [](const ParamsOf<F>& p, const VjpArgs& a) {
    return vjp_by<parts, P>(p, a);
  };
  return wide_elementwise_op<F, 2>(name).template vjp<kVjp>({.in = {0, 1}}).build();
}

Tensors vjp_prelu(const NoParams&, const VjpArgs& a) {
  const Tensor& x = a.in[0];
  const Tensor& dy = a.grad[0];
  const Tensor positive = gt(x, 0.0);
  return {for_input(a, 0, [&] { return where(positive, dy, mul(dy, a.in[1])); }),
          for_input(a, 1, [&] { return where(positive, 0.0, mul(dy, x)); })};
}

}  // namespace

const OpDef& leaky_relu_op() {
  static OpDef def =
      activation<functor::LeakyRelu, LeakyReluParams, leaky_relu_grad_op>("leaky_relu");
  return def;
}
const OpDef& leaky_relu_grad_op() {
  static OpDef def =
      activation_grad<functor::LeakyReluGrad, LeakyReluParams, leaky_relu_grad_parts>(
          "leaky_relu_grad");
  return def;
}
const OpDef& elu_op() {
  static OpDef def = activation<functor::Elu, EluParams, elu_grad_op>("elu");
  return def;
}
const OpDef& elu_grad_op() {
  static OpDef def = activation_grad<functor::EluGrad, EluParams, elu_grad_parts>("elu_grad");
  return def;
}
const OpDef& selu_op() {
  static OpDef def = activation<functor::Selu, NoParams, selu_grad_op>("selu");
  return def;
}
const OpDef& selu_grad_op() {
  static OpDef def = activation_grad<functor::SeluGrad, NoParams, selu_grad_parts>("selu_grad");
  return def;
}
const OpDef& gelu_op() {
  static OpDef def = activation<functor::Gelu, NoParams, gelu_grad_op>("gelu");
  return def;
}
const OpDef& gelu_grad_op() {
  static OpDef def = activation_grad<functor::GeluGrad, NoParams, gelu_grad_parts>("gelu_grad");
  return def;
}
const OpDef& gelu_tanh_op() {
  static OpDef def = activation<functor::GeluTanh, NoParams, gelu_tanh_grad_op>("gelu_tanh");
  return def;
}
const OpDef& gelu_tanh_grad_op() {
  static OpDef def =
      activation_grad<functor::GeluTanhGrad, NoParams, gelu_tanh_grad_parts>("gelu_tanh_grad");
  return def;
}
const OpDef& silu_op() {
  static OpDef def = activation<functor::Silu, NoParams, silu_grad_op>("silu");
  return def;
}
const OpDef& silu_grad_op() {
  static OpDef def = activation_grad<functor::SiluGrad, NoParams, silu_grad_parts>("silu_grad");
  return def;
}
const OpDef& softplus_op() {
  static OpDef def =
      activation<functor::Softplus, SoftplusParams, softplus_grad_op>("softplus", Precision::f32);
  return def;
}
const OpDef& softplus_grad_op() {
  static OpDef def =
      activation_grad<functor::SoftplusGrad, SoftplusParams, softplus_grad_parts>("softplus_grad");
  return def;
}
const OpDef& hardsigmoid_op() {
  static OpDef def = activation<functor::Hardsigmoid, NoParams, hardsigmoid_grad_op>("hardsigmoid");
  return def;
}
const OpDef& hardsigmoid_grad_op() {
  static OpDef def = activation_grad<functor::HardsigmoidGrad, NoParams, hardsigmoid_grad_parts>(
      "hardsigmoid_grad");
  return def;
}
const OpDef& mish_op() {
  static OpDef def = activation<functor::Mish, NoParams, mish_grad_op>("mish");
  return def;
}
const OpDef& mish_grad_op() {
  static OpDef def = activation_grad<functor::MishGrad, NoParams, mish_grad_parts>("mish_grad");
  return def;
}
const OpDef& prelu_op() {
  static OpDef def =
      elementwise_op<functor::Prelu, 2>("prelu").vjp<vjp_prelu>({.in = {0, {1, {0}}}}).build();
  return def;
}

Tensor leaky_relu(const Tensor& x, const LeakyReluParams& params) {
  return dispatch(leaky_relu_op(), params, {x})[0];
}
Tensor elu(const Tensor& x, const EluParams& params) { return dispatch(elu_op(), params, {x})[0]; }
Tensor selu(const Tensor& x) { return dispatch(selu_op(), NoParams{}, {x})[0]; }
Tensor gelu(const Tensor& x, GeluForm form) {
  return dispatch(form == GeluForm::erf ? gelu_op() : gelu_tanh_op(), NoParams{}, {x})[0];
}
Tensor silu(const Tensor& x) { return dispatch(silu_op(), NoParams{}, {x})[0]; }
Tensor softplus(const Tensor& x, const SoftplusParams& params) {
  check(params.beta > 0, "softplus: beta must be positive, got {}", params.beta);
  return dispatch(softplus_op(), params, {x})[0];
}
Tensor hardsigmoid(const Tensor& x) { return dispatch(hardsigmoid_op(), NoParams{}, {x})[0]; }
Tensor mish(const Tensor& x) { return dispatch(mish_op(), NoParams{}, {x})[0]; }

Tensor prelu(const Tensor& x, const Tensor& weight) {
  if (weight.numel() == 1) return dispatch(prelu_op(), NoParams{}, {x, reshape(weight, {})})[0];
  check<ShapeError>(x.rank() >= 2 && weight.shape() == Shape{x.shape()[1]},
                    "prelu: weight must be [1] or [C] for x [N, C, …], got {} for x {}",
                    weight.shape(), x.shape());
  Shape per_channel = Dims::filled(x.rank(), 1);
  per_channel[1] = weight.shape()[0];
  return dispatch(prelu_op(), NoParams{}, {x, reshape(weight, per_channel)})[0];
}

Tensor clipped_relu(const Tensor& x, double limit) {
  check(limit >= 0, "clipped_relu: limit must not be negative, got {}", limit);
  return clamp(x, {.low = 0, .high = limit, .open = true});
}

Tensor log_sigmoid(const Tensor& x) { return neg(softplus(neg(x))); }

template <>
struct Words<GeluForm> {
  static constexpr std::pair<const char*, GeluForm> all[] = {{"none", GeluForm::erf},
                                                             {"tanh", GeluForm::tanh}};
};

Functions activation_functions() {
  const auto plain = [](const char* name, Tensor (*f)(const Tensor&), const char* doc) {
    return mica::Function{.name = name,
                          .doc = doc,
                          .signatures = {{f, {"input", ignored_inplace()}}},
                          .offer = kFunctional};
  };
  return {
      plain("selu", selu,
            "s * input where it is positive, else s * a * (exp(input) - 1), with s = 1.0507… and a "
            "= 1.6732…: activations keep mean 0 and variance 1. Of a floating dtype."),
      plain("silu", silu, "input * sigmoid(input); of a floating dtype."),
      plain("mish", mish, "input * tanh(softplus(input)); of a floating dtype."),
      plain("hardsigmoid", hardsigmoid, "clamp(input + 3, 0, 6) / 6; of a floating dtype."),
      {.name = "logsigmoid",
       .doc = "log(sigmoid(input)), without overflow; of a floating dtype.",
       .signatures = {{log_sigmoid, {"input"}}},
       .offer = kFunctional,
       .op = "log_sigmoid"},
      {.name = "leaky_relu",
       .doc = "input where it is positive, else negative_slope * input; of a floating dtype.",
       .signatures = {{[](const Tensor& x, double slope) {
                         return leaky_relu(x, {.slope = slope});
                       },
                       {"input", {"negative_slope", 0.01}, ignored_inplace()}}},
       .offer = kFunctional},
      {.name = "prelu",
       .doc = "input where it is positive, else weight * input: one weight, or (C) for the "
              "channels of input (N, C, …).",
       .signatures = {{prelu, {"input", "weight"}}},
       .offer = kFunctional},
      {.name = "clipped_relu",
       .doc = "input in [0, limit], in its dtype; NaN stays.",
       .signatures = {{clipped_relu, {"input", {"limit", 6.0}}}},
       .offer = kFunctional},
      {.name = "elu",
       .doc = "input where it is positive, else alpha * (exp(input) - 1); of a floating dtype.",
       .signatures = {{[](const Tensor& x, double alpha) { return elu(x, {.alpha = alpha}); },
                       {"input", {"alpha", 1.0}, ignored_inplace()}}},
       .offer = kFunctional},
      {.name = "gelu",
       .doc = "input * P(X <= input) for a normal X, by erf; approximate='tanh' takes the usual "
              "approximation. Of a floating dtype.",
       .signatures = {{gelu, {"input", {"approximate", "none"}}}},
       .offer = kFunctional},
      {.name = "softplus",
       .doc = "log(1 + exp(beta * input)) / beta, and input itself where beta * input is above "
              "threshold; of a floating dtype.",
       .signatures = {{[](const Tensor& x, double beta, double threshold) {
                         return softplus(x, {.beta = beta, .threshold = threshold});
                       },
                       {"input", {"beta", 1.0}, {"threshold", 20.0}}}},
       .offer = kFunctional},
  };
}

}  // namespace mica
