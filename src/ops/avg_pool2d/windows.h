#pragma once

#include <vector>

#include "mica/op/kernel.h"
#include "mica/ops/avg_pool2d/avg_pool2d.h"
#include "mica/ops/pool/geometry.h"

namespace mica {

/// The windows of one axis.
struct AverageAxis {
  std::vector<PoolRange> windows;  ///< inputs of each output
  std::vector<PoolRange> over;     ///< outputs that each input belongs to
  /// The divisor of an output is the product of its two axes' counts.
  std::vector<double> counts;
};

/// Everything an average over windows is computed from.
struct Average {
  Pool2dGeometry g;
  AverageAxis rows, cols;
};

// `x` is the shape of the input; `op` names the operator in errors.
Pool2dGeometry average_geometry(const char* op, const AvgPool2dParams& params, const Shape& x);
Average average(const AvgPool2dParams& params, const Shape& x);
Average adaptive_average(Size2 output, const Shape& x);

Kernel avg_pool2d_reference_kernel();
Kernel avg_pool2d_grad_reference_kernel();
Kernel adaptive_avg_pool2d_reference_kernel();
Kernel adaptive_avg_pool2d_grad_reference_kernel();
Kernel avg_pool2d_separable_kernel();
Kernel avg_pool2d_grad_separable_kernel();
Kernel adaptive_avg_pool2d_separable_kernel();
Kernel adaptive_avg_pool2d_grad_separable_kernel();

}  // namespace mica
