#pragma once

#include "mica/core/dims.h"

namespace mica {

/// How pooling windows lie along one, two or three axes.
struct PoolWindows {
  Dims kernel;
  Dims stride;  ///< 0 means the kernel's size
  Dims padding, dilation;
  bool ceil_mode = false;
};

/// Checks a pooling of x (N, C, …) and gives its shape; `op` names the operator in errors. Every
/// window holds an element of the image.
Shape pool_shape(const char* op, const Shape& x, const PoolWindows& windows);

/// The same for windows that divide x (N, C, …) into `output` parts.
Shape adaptive_pool_shape(const char* op, const Shape& x, const Dims& output);

/// The elements of a window that lie inside the image along one axis: first, first + step, … below
/// last.
struct PoolRange {
  int64_t first;
  int64_t last;
  int64_t step;
};

inline PoolRange pool_range(int64_t output, int64_t size, int64_t kernel, int64_t stride,
                            int64_t padding, int64_t dilation) {
  const int64_t start = output * stride - padding;
  const int64_t end = start + (kernel - 1) * dilation + 1;
  const int64_t first = start < 0 ? start + (-start + dilation - 1) / dilation * dilation : start;
  return {first, end < size ? end : size, dilation};
}

/// Part `output` of `outputs` nearly equal ones; neighbours overlap where they do not divide the
/// size.
inline PoolRange adaptive_range(int64_t output, int64_t outputs, int64_t size) {
  return {output * size / outputs, ((output + 1) * size + outputs - 1) / outputs, 1};
}

/// The sizes of one pooling: x (n, c, h, w), result (n, c, oh, ow).
struct Pool2dGeometry {
  int64_t n = 0, c = 0, h = 0, w = 0;
  int64_t oh = 0, ow = 0;
  Size2 kernel, stride, padding, dilation = 1;
  bool adaptive = false;  ///< windows are those of adaptive_range and not all of one size

  Shape y_shape() const { return {n, c, oh, ow}; }
  PoolRange rows(int64_t i) const {
    return adaptive ? adaptive_range(i, oh, h)
                    : pool_range(i, h, kernel.h, stride.h, padding.h, dilation.h);
  }
  PoolRange cols(int64_t i) const {
    return adaptive ? adaptive_range(i, ow, w)
                    : pool_range(i, w, kernel.w, stride.w, padding.w, dilation.w);
  }
};

Pool2dGeometry pool2d_geometry(const char* op, const Shape& x, const PoolWindows& windows);
Pool2dGeometry adaptive_pool2d_geometry(const char* op, const Shape& x, Size2 output);

}  // namespace mica
