#pragma once

#include "mica/ops/grid_sample/grid_sample.h"

namespace mica {

/// `grid_sample` made of other ops: what the gradient of its gradient is found from.
Tensor grid_sample_by_ops(const Tensor& x, const Tensor& grid, const GridSampleParams& params);

}  // namespace mica
