#pragma once

#include <vector>

#include "mica/op/kernel.h"
#include "mica/ops/upsample/upsample.h"

namespace mica {

/// Resampling along one axis: output i is the sum over k of weight * input at its taps
/// [i * per_output, (i + 1) * per_output). Two axes are resampled one after the other.
struct AxisTaps {
  int per_output = 1;
  int64_t outputs = 0, inputs = 0;
  std::vector<int32_t> index;
  std::vector<double> weight;

  /// `scale` is the axis's own, or 0.
  AxisTaps(UpsampleMode mode, int64_t inputs, int64_t outputs, double scale, bool align_corners);
};

/// The same taps sorted by input: input i goes to outputs index[k], k in [start[i], start[i + 1]).
struct AxisScatter {
  std::vector<int64_t> start;
  std::vector<int32_t> index;
  std::vector<double> weight;

  explicit AxisScatter(const AxisTaps& taps);
};

Kernel upsample2d_reference_kernel();
Kernel upsample2d_grad_reference_kernel();
Kernel upsample2d_separable_kernel();
Kernel upsample2d_grad_separable_kernel();

}  // namespace mica
