#pragma once

#include "mica/op/kernel.h"
#include "mica/ops/max_pool2d/max_pool2d.h"
#include "mica/ops/pool/geometry.h"

namespace mica {

/// Checks the parameters and the shape of x; `op` names the operator in errors.
Pool2dGeometry pool2d_geometry(const char* op, const MaxPool2dParams& params, const Shape& x);

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
Kernel adaptive_max_pool2d_reference_kernel();
Kernel adaptive_max_pool2d_vectorized_kernel();

}  // namespace mica
