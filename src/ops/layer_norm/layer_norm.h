#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

namespace mica {

struct LayerNormParams {
  Shape normalized_shape;  ///< the last axes of x
  double eps = 1e-5;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("normalized_shape", self.normalized_shape);
    f("eps", self.eps);
  }
};

struct LayerNormGradParams {
  Shape normalized_shape;
  bool parameters = true;  ///< weight's and bias's gradients are outputs too

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("normalized_shape", self.normalized_shape);
    f("parameters", self.parameters);
  }
};

/// Normalises x over its last axes, whose sizes are `normalized_shape`: (x - mean) / sqrt(variance
/// + eps) * weight + bias. weight and bias are of that shape, of x's dtype or of the statistics',
/// and may be left out. Op outputs: y, and in the statistics' dtype (f64 for f64, else f32) the
/// mean and 1/std, of x's shape with sizes of 1 for the normalised axes.
Tensor layer_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5);

/// The same without the mean: x / sqrt(mean of x * x + eps) * weight. Op outputs: y, 1/rms.
Tensor rms_norm(const Tensor& x, const Shape& normalized_shape, const Tensor& weight = {},
                double eps = 1e-6);

/// dx, and with params.parameters dweight and (layer_norm) dbias in the statistics' dtype.
struct LayerNormGrads {
  Tensor dx, dweight, dbias;
};
LayerNormGrads layer_norm_grad(const Tensor& dy, const Tensor& x, const Tensor& weight,
                               const Tensor& mean, const Tensor& rstd,
                               const LayerNormGradParams& params);
LayerNormGrads rms_norm_grad(const Tensor& dy, const Tensor& x, const Tensor& weight,
                             const Tensor& rrms, const LayerNormGradParams& params);

}  // namespace mica
