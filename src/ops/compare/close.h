#pragma once

#include "mica/core/tensor.h"

namespace mica {

struct CloseOptions {
  double rtol = 1e-5;
  double atol = 1e-8;
  bool equal_nan = false;  ///< NaN is close to NaN
};

/// Whether |a - b| <= atol + rtol * |b|, as bool; infinities are close to themselves. Shapes
/// broadcast.
Tensor isclose(const Tensor& a, const Tensor& b, const CloseOptions& options = {});
/// Whether all elements are close.
bool allclose(const Tensor& a, const Tensor& b, const CloseOptions& options = {});
/// Whether both have one shape and equal elements. NaN equals nothing.
bool equal(const Tensor& a, const Tensor& b);

}  // namespace mica
