#pragma once

#include <optional>

#include "mica/op/kernel.h"
#include "mica/ops/anchored/anchored.h"
#include "mica/ops/batch_norm/batch_norm.h"

namespace mica {

/// The dtype of statistics and parameters for an input of dtype `x`.
inline DType batch_norm_statistics_dtype(DType x) {
  return x == DType::f64 ? DType::f64 : DType::f32;
}

/// Element `i` of a (C) tensor of any stride; `otherwise` where it is undefined.
template <class S>
S channel_value(const Arg& arg, int64_t i, double otherwise) {
  return arg.defined() ? arg.as<S>()[i * arg.strides()[0]] : static_cast<S>(otherwise);
}

/// Moves the running statistics of a channel, where they are defined, towards those of a batch of
/// `count` values. Inputs are batch_norm's.
template <class S>
void update_running(const BatchNormParams& params, const Call& call, int64_t channel, double mean,
                    double variance, double count) {
  if (!call.in[3].defined() || count < 2) return;
  const auto move = [&](const Arg& running, double value) {
    S& at = running.as<S>()[channel * running.strides()[0]];
    at = static_cast<S>((1 - params.momentum) * static_cast<double>(at) + params.momentum * value);
  };
  move(call.in[3], mean);
  move(call.in[4], variance * count / (count - 1));
}

/// Something that comes with a call, or nothing.
inline const Arg& no_arg() {
  static const TensorSpec undefined;
  static const Arg none{nullptr, &undefined};
  return none;
}

/// What kernels do with the result: add `added`, of its shape, where there is such an input, then
/// relu.
struct BatchNormEnd {
  int added = -1;
  bool relu = false;
};
/// Of a batch norm that carries a program; none for a program that is another one.
std::optional<BatchNormEnd> batch_norm_end(const AnchoredParams& params, const Specs& specs);

/// What a batch norm with a program after it does once its statistics are known: a program of x,
/// mean and 1/std, weight and bias as far as there are any, and what the program reads.
struct BatchNormPass {
  Program program;
  std::vector<TensorSpec> in;
  /// The inputs' places: those of the whole call, or negative, the results -i of the anchor.
  std::vector<int> from;
};
/// None where the call carries none, or the program would be too large.
std::optional<BatchNormPass> batch_norm_pass(const AnchoredParams& params, const Specs& specs);

/// Where the cotangent of a batch norm counts, if relu's gradient comes before: where `y`, an
/// input, is positive, with the input `added`, where there is one, added to it before; or where
/// relu of the batch norm, computed again with the bias, is.
struct BatchNormMask {
  int y = -1;
  int added = -1;
  int bias = -1;
  bool recomputed = false;
};
/// Of a gradient that carries a program; none for a program that is another one.
std::optional<BatchNormMask> batch_norm_mask(const AnchoredParams& params, const Specs& specs);
/// The gradient for x of relu(batch_norm(x)), which is computed again: the programs read dy; then
/// x, mean, 1/std, and weight and bias as far as there are any.
Anchored batch_norm_grad_of_relu(const BatchNormParams& params, DType dtype, bool weight,
                                 bool bias);
inline const BatchNormParams& batch_norm_params(const AnchoredParams& params) {
  return params.call->params.as<BatchNormParams>();
}
inline const Arg& input_or_none(const Call& call, int i) {
  return i < 0 ? no_arg() : call.in[static_cast<size_t>(i)];
}

Kernel batch_norm_reference_kernel();
Kernel batch_norm_grad_reference_kernel();
Kernel batch_norm_vectorized_kernel();
Kernel batch_norm_grad_vectorized_kernel();

}  // namespace mica
