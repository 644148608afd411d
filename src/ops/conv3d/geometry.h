#pragma once

#include "mica/op/kernel.h"
#include "mica/ops/conv3d/conv3d.h"

namespace mica {

/// The sizes of one convolution: x (n, c, in), weight (o, c / groups, kernel), y (n, o, out).
struct Conv3dGeometry {
  int64_t n = 0, c = 0, o = 0;
  Size3 in, kernel, out;
  Size3 stride, padding, dilation;
  int64_t groups = 1;

  int64_t group_in() const { return c / groups; }
  int64_t group_out() const { return o / groups; }
  /// Products per element of y.
  int64_t window() const { return group_in() * kernel.d * kernel.h * kernel.w; }
  Shape y_shape() const { return {n, o, out.d, out.h, out.w}; }
};

/// Checks the parameters and shapes of a convolution; `op` names the operator in errors.
Conv3dGeometry conv3d_geometry(const char* op, const Conv3dParams& params, const Shape& x,
                               const Shape& weight);

Kernel conv3d_reference_kernel();
Kernel conv3d_dgrad_reference_kernel();
Kernel conv3d_wgrad_reference_kernel();
Kernel conv3d_vol2col_kernel();
Kernel conv3d_dgrad_vol2col_kernel();
Kernel conv3d_wgrad_vol2col_kernel();

}  // namespace mica
