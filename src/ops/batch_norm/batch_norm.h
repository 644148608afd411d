#pragma once

#include "mica/core/tensor.h"
#include "mica/op/params.h"

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

struct BatchNormActParams {
  BatchNormParams norm;
  bool relu = true;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    BatchNormParams::fields(self.norm, f);
    f("relu", self.relu);
  }
};

/// batch_norm, then + residual (of x's shape and dtype, may be left out), then relu where
/// params.relu says so, in one pass. Op inputs: batch_norm's, residual; outputs: batch_norm's.
Tensor batch_norm_act(const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Tensor& running_mean, const Tensor& running_var, const Tensor& residual,
                      const BatchNormActParams& params = {});

/// Op inputs: dy, x, weight (may be undefined), mean (C), invstd (C). Outputs: dx (N, C, …),
/// dweight (C), dbias (C). With params.training the statistics depend on x, otherwise they are
/// constants.
struct BatchNormGrads {
  Tensor dx, dweight, dbias;
};
BatchNormGrads batch_norm_grad(const Tensor& dy, const Tensor& x, const Tensor& weight,
                               const Tensor& mean, const Tensor& invstd,
                               const BatchNormParams& params);

/// batch_norm_grad of relu_grad(dy, y), in one pass. Op inputs: batch_norm_grad's, bias and y,
/// which may be undefined. With y the outputs are batch_norm_grad's and what relu_grad gives: the
/// gradient of a residual. Without, y is taken to be relu(batch_norm(x)), and its sign is computed
/// again from x and the bias; there is no fourth output.
struct BatchNormActGrads {
  Tensor dx, dweight, dbias, dresidual;
};
BatchNormActGrads batch_norm_act_grad(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                      const Tensor& mean, const Tensor& invstd, const Tensor& bias,
                                      const Tensor& y, const BatchNormParams& params);

}  // namespace mica
