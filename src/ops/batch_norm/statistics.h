#pragma once

#include "mica/op/kernel.h"
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

/// What batch_norm does, in the words of batch_norm_act.
inline BatchNormActParams without_act(const BatchNormParams& params) { return {params, false}; }

/// Input `i` of a call that may have fewer.
inline const Arg& input_or_none(const Call& call, size_t i) {
  static const TensorSpec undefined;
  static const Arg none{nullptr, &undefined};
  return i < call.in.size() ? call.in[i] : none;
}

Kernel batch_norm_reference_kernel();
Kernel batch_norm_grad_reference_kernel();
Kernel batch_norm_vectorized_kernel();
Kernel batch_norm_grad_vectorized_kernel();
Kernel batch_norm_act_reference_kernel();
Kernel batch_norm_act_grad_reference_kernel();
Kernel batch_norm_act_vectorized_kernel();
Kernel batch_norm_act_grad_vectorized_kernel();

}  // namespace mica
