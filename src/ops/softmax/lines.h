#pragma once

#include "mica/op/kernel.h"

namespace mica {

/// A dense tensor as (outer, n, inner) in memory, the axis of its lines in the middle.
struct SoftmaxLines : KernelState {
  SoftmaxLines(const TensorSpec& dense, int64_t line_axis) {
    const Dims channels_last = {0, 2, 3, 1};
    bool behind = false;
    for (int i = 0; i < dense.rank(); ++i) {
      const auto axis = dense.is_contiguous() ? i : static_cast<int>(channels_last[i]);
      if (axis == line_axis) {
        n = dense.shape[axis];
        behind = true;
      } else {
        (behind ? inner : outer) *= dense.shape[axis];
      }
    }
  }

  int64_t outer = 1, n = 1, inner = 1;
};

}  // namespace mica
