#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"
#include "mica/ops/conv/options.h"

namespace mica {

/// Parameters of the op, which knows one padding for both sides.
struct Conv3dParams {
  Size3 stride = 1;
  Size3 padding = 0;
  Size3 dilation = 1;
  int64_t groups = 1;

  operator ConvOptions<Size3>() const {  // NOLINT(google-explicit-constructor)
    return {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups};
  }

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("stride", self.stride);
    f("padding", self.padding);
    f("dilation", self.dilation);
    f("groups", self.groups);
  }
};

/// Parameters of the two gradients: the convolution's own and the shape of what is computed.
struct Conv3dGradParams {
  Conv3dParams conv;
  Shape shape;  ///< of the input (dgrad) or of the weight (wgrad)

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    Conv3dParams::fields(self.conv, f);
    f("shape", self.shape);
  }
};

/// Cross-correlation of x (N, C_in, D, H, W) with weight (C_out, C_in/groups, kD, kH, kW), plus
/// bias (C_out) where defined. The result is (N, C_out, D', H', W').
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const ConvOptions<Size3>& options = {});

/// Gradient of conv3d for its input: inputs dy (N, C_out, D', H', W'), weight; output
/// (N, C_in, D, H, W).
Tensor conv3d_dgrad(const Tensor& dy, const Tensor& weight, const Conv3dGradParams& params);

/// Gradient of conv3d for its weight: inputs dy, x; output (C_out, C_in/groups, kD, kH, kW).
Tensor conv3d_wgrad(const Tensor& dy, const Tensor& x, const Conv3dGradParams& params);

}  // namespace mica
