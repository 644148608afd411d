#pragma once

#include "mica/core/tensor.h"

namespace mica {

/// The largest values, and where each was found: its index (i64) in the row-major order of the
/// image, (L), (H, W) or (D, H, W).
struct PooledWithIndices {
  Tensor values;
  Tensor indices;
};

// Options of pooling; sizes are int64_t, Size2 or Size3 for one, two or three axes.

template <class Size>
struct MaxPoolOptions {
  Size kernel = 2;
  Size stride = 0;  ///< 0 means the kernel's size
  Size padding = 0;
  Size dilation = 1;
  bool ceil_mode = false;  ///< a last window that reaches past the end counts too

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("kernel", self.kernel);
    f("stride", self.stride);
    f("padding", self.padding);
    f("dilation", self.dilation);
    f("ceil_mode", self.ceil_mode);
  }
};

template <class Size>
struct AvgPoolOptions {
  Size kernel = 2;
  Size stride = 0;  ///< 0 means the kernel's size
  Size padding = 0;
  bool ceil_mode = false;         ///< a last window that reaches past the end counts too
  bool count_include_pad = true;  ///< the padding counts in the divisor
  int64_t divisor_override = 0;   ///< divides every sum, where it is not 0

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("kernel", self.kernel);
    f("stride", self.stride);
    f("padding", self.padding);
    f("ceil_mode", self.ceil_mode);
    f("count_include_pad", self.count_include_pad);
    f("divisor_override", self.divisor_override);
  }
};

}  // namespace mica
