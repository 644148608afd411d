#pragma once

#include "mica/op/kernel.h"
#include "mica/ops/group_norm/group_norm.h"

namespace mica {

Kernel group_norm_reference_kernel();
Kernel group_norm_grad_reference_kernel();
Kernel group_norm_vectorized_kernel();
Kernel group_norm_grad_vectorized_kernel();

/// x (N, C, …) as `n` images of `groups` groups of `width` channels of `size` values.
struct GroupShape {
  int64_t n, groups, width, size = 1;
  GroupShape(const Shape& x, int64_t group_count)
      : n(x[0]), groups(group_count), width(x[1] / group_count) {
    for (int i = 2; i < x.rank(); ++i) size *= x[i];
  }
  int64_t channels() const { return groups * width; }
  /// Values that are normalised together.
  int64_t count() const { return width * size; }
};

}  // namespace mica
