#pragma once

// Calls of an op with programs on its operand or result; the rooms of the anchors have the samples.
#include <cmath>

#include "mica/ops/anchored/anchored.h"
#include "tests/op_cases/op_case.h"

namespace mica::cases {

std::vector<Sample> conv2d_carrying_samples();
std::vector<Sample> product_carrying_samples();
std::vector<Sample> batch_norm_carrying_samples();
std::vector<Sample> conv2d_batch_norm_carrying_samples();
std::vector<Sample> row_norm_carrying_samples();
std::vector<Sample> quantized_carrying_samples();

inline constexpr Activation kEveryActivation[] = {
    Activation::relu,      Activation::gelu, Activation::gelu_tanh, Activation::silu,
    Activation::hardswish, Activation::tanh, Activation::sigmoid};

template <class P = NoParams>
Instruction elementwise(const char* op, std::vector<int> operands, const P& params = {}) {
  return {&find_op(op), AnyParams(ParamsRef::of(params)), std::move(operands)};
}
inline Instruction activation_call(Activation activation, int operand) {
  return elementwise(print_field(activation).c_str(), {operand});
}
inline Instruction gradient_call(Activation activation, int dy, int saved) {
  return elementwise((print_field(activation) + "_grad").c_str(), {dy, saved});
}

/// A call of an op with a program after it.
template <class P>
Tensors call_carrying(const char* op, const P& params, Program after, const Tensors& in,
                      bool keeps_result = false) {
  Anchored whole{.op = &find_op(op), .params = AnyParams(ParamsRef::of(params))};
  whole.after = intern(std::move(after));
  whole.keeps_result = keeps_result;
  return call_op("anchored", AnchoredParams{intern(whole)}, in);
}

/// An activation, and its slope: at its result for relu, tanh and sigmoid, else at its argument.
inline double activated(double x, Activation activation) {
  const auto logistic = [](double v) { return 1 / (1 + std::exp(-v)); };
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x > 0 ? x : 0;
    case Activation::gelu:
      return x / 2 * std::erfc(-x / std::sqrt(2.0));
    case Activation::gelu_tanh:
      return x / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case Activation::silu:
      return x * logistic(x);
    case Activation::hardswish:
      return x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case Activation::tanh:
      return std::tanh(x);
    case Activation::sigmoid:
      return logistic(x);
  }
  return x;
}
inline double slope_at(double saved, Activation activation) {
  const double x = saved;
  const auto logistic = [](double v) { return 1 / (1 + std::exp(-v)); };
  const double pi = std::acos(-1.0);
  switch (activation) {
    case Activation::none:
      return 1;
    case Activation::relu:
      return x > 0 ? 1 : 0;
    case Activation::gelu:
      return std::erfc(-x / std::sqrt(2.0)) / 2 + x * std::exp(-x * x / 2) / std::sqrt(2 * pi);
    case Activation::gelu_tanh: {
      const double c = std::sqrt(2 / pi);
      const double t = std::tanh(c * (x + 0.044715 * x * x * x));
      return (1 + t) / 2 + x / 2 * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
    }
    case Activation::silu:
      return logistic(x) * (1 + x * (1 - logistic(x)));
    case Activation::hardswish:
      return x <= -3 ? 0 : x < 3 ? x / 3 + 0.5 : 1;
    case Activation::tanh:
      return 1 - x * x;
    case Activation::sigmoid:
      return x * (1 - x);
  }
  return 1;
}

}  // namespace mica::cases
