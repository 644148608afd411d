#pragma once

#include "mica/core/tensor.h"

namespace mica {

struct NormalizeOptions {
  double p = 2;
  int64_t axis = 1;
  double eps = 1e-12;  ///< the least norm that is divided by
};

/// x divided by its p-norm along an axis.
Tensor normalize(const Tensor& x, const NormalizeOptions& options = {});

}  // namespace mica
