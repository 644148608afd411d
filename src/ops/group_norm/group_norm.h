#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

namespace mica {

struct GroupNormParams {
  int64_t groups = 1;
  double eps = 1e-5;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("groups", self.groups);
    f("eps", self.eps);
  }
};

struct GroupNormGradParams {
  int64_t groups = 1;
  bool parameters = true;  ///< weight's and bias's gradients are outputs too

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("groups", self.groups);
    f("parameters", self.parameters);
  }
};

/// Normalises each image of x (N, C, …) over `groups` groups of neighbouring channels. weight and
/// bias are (C), of x's dtype or of the statistics', and may be left out. Op outputs: y, and in the
/// statistics' dtype (f64 for f64, else f32) the mean (N, groups) and 1/std (N, groups).
Tensor group_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const GroupNormParams& params);

/// dx, and with params.parameters dweight and dbias (C) in the statistics' dtype.
struct GroupNormGrads {
  Tensor dx, dweight, dbias;
};
GroupNormGrads group_norm_grad(const Tensor& dy, const Tensor& x, const Tensor& weight,
                               const Tensor& mean, const Tensor& rstd,
                               const GroupNormGradParams& params);

struct InstanceNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;        ///< weight of the new statistics in the running ones
  bool use_input_stats = true;  ///< else the running ones
};

/// Normalises each channel of each image of x (N, C, …). weight, bias, running_mean and running_var
/// are (C) and may be left out. The running statistics move towards the mean over the images of
/// theirs (with the unbiased variance); where there are any, all four are of the statistics' dtype.
Tensor instance_norm(const Tensor& x, const Tensor& running_mean = {},
                     const Tensor& running_var = {}, const Tensor& weight = {},
                     const Tensor& bias = {}, const InstanceNormOptions& options = {});

}  // namespace mica
