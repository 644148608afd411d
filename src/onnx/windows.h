#pragma once

#include <string>
#include <vector>

#include "mica/core/dims.h"
#include "mica/onnx/call.h"

namespace mica::onnx {

/// The attributes that convolutions and poolings share, for each axis of an image.
struct Windows {
  std::vector<int64_t> kernel, stride, dilation, before, after;

  /// Of x (N, C, …) with its sizes; `auto_pad` gives the paddings where it is asked for.
  static Windows of(const Call& c, const Shape& x, std::vector<int64_t> kernel);

  size_t rank() const { return kernel.size(); }
  /// What a window covers.
  int64_t extent(size_t i) const { return dilation[i] * (kernel[i] - 1) + 1; }
  /// How many windows there are; with `ceil` also one that reaches past the end, if it begins
  /// before it.
  int64_t count(size_t i, int64_t size, bool ceil) const;
  bool is_symmetric() const { return before == after; }
};

}  // namespace mica::onnx
