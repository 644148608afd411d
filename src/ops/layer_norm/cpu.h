#pragma once

#include "mica/op/kernel.h"
#include "mica/ops/layer_norm/layer_norm.h"

namespace mica {

Kernel layer_norm_reference_kernel();
Kernel rms_norm_reference_kernel();
Kernel layer_norm_grad_reference_kernel();
Kernel rms_norm_grad_reference_kernel();
Kernel layer_norm_vectorized_kernel();
Kernel rms_norm_vectorized_kernel();
Kernel layer_norm_grad_vectorized_kernel();
Kernel rms_norm_grad_vectorized_kernel();

/// x as a matrix of `rows` lines of `n` numbers, each of which is normalised.
struct NormRows {
  int64_t rows, n;
  NormRows(const Shape& x, const Shape& normalized) : rows(1), n(numel(normalized)) {
    for (int i = 0; i < x.rank() - normalized.rank(); ++i) rows *= x[i];
  }
};

}  // namespace mica
