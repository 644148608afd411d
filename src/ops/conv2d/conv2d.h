#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"
#include "mica/ops/conv/options.h"

namespace mica {

/// Parameters of the op, which knows one padding for both sides.
struct Conv2dParams {
  Size2 stride = 1;
  Size2 padding = 0;
  Size2 dilation = 1;
  int64_t groups = 1;

  operator ConvOptions<Size2>() const {  // NOLINT(google-explicit-constructor)
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
struct Conv2dGradParams {
  Conv2dParams conv;
  Shape shape;                 ///< of the input (dgrad) or of the weight (wgrad)
  bool channels_last = false;  ///< the format of wgrad's result, else row-major

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    Conv2dParams::fields(self.conv, f);
    f("shape", self.shape);
    f("channels_last", self.channels_last);
  }
};

/// Cross-correlation of x (N, C_in, H, W) with weight (C_out, C_in/groups, kH, kW), plus bias
/// (C_out) where defined. The result is (N, C_out, H', W').
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const ConvOptions<Size2>& options = {});

/// Gradient of conv2d for its input: inputs dy (N, C_out, H', W'), weight; output (N, C_in, H, W).
Tensor conv2d_dgrad(const Tensor& dy, const Tensor& weight, const Conv2dGradParams& params);

/// Gradient of conv2d for its weight: inputs dy, x; output (C_out, C_in/groups, kH, kW).
Tensor conv2d_wgrad(const Tensor& dy, const Tensor& x, const Conv2dGradParams& params);

}  // namespace mica
