#pragma once

#include "mica/core/spec.h"
#include "mica/op/kernel.h"
#include "mica/ops/conv2d/conv2d.h"

namespace mica {

struct VjpArgs;

/// The sizes of one convolution: x (n, c, h, w), weight (o, c / groups, kh, kw), y (n, o, oh, ow).
struct Conv2dGeometry {
  int64_t n = 0, c = 0, h = 0, w = 0;
  int64_t o = 0, kh = 0, kw = 0;
  int64_t oh = 0, ow = 0;
  Size2 stride, padding, dilation;
  int64_t groups = 1;

  int64_t group_in() const { return c / groups; }
  int64_t group_out() const { return o / groups; }
  /// Products per element of y.
  int64_t window() const { return group_in() * kh * kw; }
  int64_t pixels() const { return oh * ow; }
  Shape y_shape() const { return {n, o, oh, ow}; }
  /// Every window is one pixel: x is the matrix that im2col would make.
  bool pointwise() const { return kh == 1 && kw == 1 && stride == Size2(1) && padding == Size2(0); }
};

/// Checks the parameters and shapes of a convolution; `op` names the operator in errors.
Conv2dGeometry conv2d_geometry(const char* op, const Conv2dParams& params, const Shape& x,
                               const Shape& weight);

/// Gradients of x, weight and bias from that of their convolution.
Tensors conv2d_gradients(const Conv2dParams& params, const Tensor& dy, const VjpArgs& args);

/// Whether the direct kernel is the fastest on the CPU, where it can be used: images that fit the
/// cache and are enough for the threads, and for the weight's gradient windows that are not wide.
bool prefers_direct(const Conv2dGeometry& g, bool weight_gradient);

/// Whether kernels of conv2d_wgrad (inputs dy, x) work in channels_last: in x's format or, where x
/// has both, in dy's.
inline bool wgrad_channels_last(const Specs& specs) {
  return specs.in[1].is_channels_last() ||
         (specs.in[1].is_channels_last_dense() && specs.in[0].is_channels_last());
}

Kernel conv2d_reference_kernel();
Kernel conv2d_dgrad_reference_kernel();
Kernel conv2d_wgrad_reference_kernel();
Kernel conv2d_depthwise_kernel();
Kernel conv2d_dgrad_depthwise_kernel();
Kernel conv2d_wgrad_depthwise_kernel();
Kernel conv2d_cpu_direct_kernel();
Kernel conv2d_dgrad_cpu_direct_kernel();
Kernel conv2d_wgrad_cpu_direct_kernel();
Kernel conv2d_im2col_kernel();
Kernel conv2d_dgrad_im2col_kernel();
Kernel conv2d_wgrad_im2col_kernel();
Kernel conv2d_wgrad_row_major_kernel();

}  // namespace mica
