#pragma once

#include "mica/op/kernel.h"
#include "mica/ops/conv2d/geometry.h"
#include "mica/ops/conv2d_pool/conv2d_pool.h"
#include "mica/ops/max_pool2d/geometry.h"

namespace mica {

/// The sizes of both halves.
struct Conv2dPoolGeometry {
  Conv2dGeometry conv;
  Pool2dGeometry pool;
};

/// Checks the parameters and shapes; `op` names the operator in errors.
Conv2dPoolGeometry conv2d_pool_geometry(const char* op, const Conv2dParams& conv,
                                        const MaxPool2dParams& pool, const Shape& x,
                                        const Shape& weight);

/// On the CPU: image by image, pooled in the cache; gradients from the largest results alone.
Kernel conv2d_pool_direct_kernel();
Kernel conv2d_pool_dgrad_sparse_kernel();
Kernel conv2d_pool_wgrad_sparse_kernel();

/// The ops that they are made of, one after the other; on any device.
Kernel conv2d_pool_composed_kernel();
Kernel conv2d_pool_dgrad_composed_kernel();
Kernel conv2d_pool_wgrad_composed_kernel();

}  // namespace mica
