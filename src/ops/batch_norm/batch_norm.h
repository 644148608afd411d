#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

namespace mica {

struct BatchNormParams {
  double eps = 1e-5;
  double momentum = 0.1;  ///< weight of the new statistics in the running ones
  bool training = true;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("eps", self.eps);
    f("momentum", self.momentum);
    f("training", self.training);
  }
};

/// Normalises x (N, C, …) over every axis but the second; weight, bias, running_mean and
/// running_var are (C). Statistics and parameters are f32 for f16 and bf16 inputs, else of x's
/// dtype.
///
/// Training: by the batch's statistics (biased variance), and writes the running ones (with the
/// unbiased variance), when they are defined. Inference: by the running statistics. weight and bias
/// may be left out. Op inputs: x, weight, bias, running_mean, running_var; outputs: y, and mean (C)
/// and 1/std (C) for the gradient.
Tensor batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Tensor& running_mean, const Tensor& running_var,
                  const BatchNormParams& params = {});

/// Op inputs: dy, x, weight (may be undefined), mean (C), invstd (C). Outputs: dx (N, C, …),
/// dweight (C), dbias (C). With params.training the statistics depend on x, otherwise they are
/// constants.
struct BatchNormGrads {
  Tensor dx, dweight, dbias;
};
BatchNormGrads batch_norm_grad(const Tensor& dy, const Tensor& x, const Tensor& weight,
                               const Tensor& mean, const Tensor& invstd,
                               const BatchNormParams& params);

}  // namespace mica
