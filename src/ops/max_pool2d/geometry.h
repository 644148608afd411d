#pragma once

#include "mica/op/kernel.h"
#include "mica/ops/max_pool2d/max_pool2d.h"

namespace mica {

/// The sizes of one pooling: x (n, c, h, w), result (n, c, oh, ow).
struct Pool2dGeometry {
  int64_t n = 0, c = 0, h = 0, w = 0;
  int64_t oh = 0, ow = 0;
  Size2 kernel, stride, padding;

  Shape y_shape() const { return {n, c, oh, ow}; }
};

/// Checks the parameters and the shape of x; `op` names the operator in errors.
Pool2dGeometry pool2d_geometry(const char* op, const MaxPool2dParams& params, const Shape& x);

/// The part of a window that lies inside the image along one axis: positions [first, last).
struct PoolRange {
  int64_t first;
  int64_t last;
};
inline PoolRange pool_range(int64_t output, int64_t stride, int64_t padding, int64_t kernel,
                            int64_t size) {
  const int64_t start = output * stride - padding;
  return {start < 0 ? 0 : start, start + kernel < size ? start + kernel : size};
}

/// Whether `value` takes the place of the largest so far: NaN counts as largest, the first of
/// equals stays.
template <class T>
bool replaces(T value, T largest) {
  return !(value <= largest) && largest == largest;
}

Kernel max_pool2d_reference_kernel();
Kernel max_pool2d_grad_reference_kernel();
Kernel max_pool2d_vectorized_kernel();
Kernel max_pool2d_grad_vectorized_kernel();

}  // namespace mica
