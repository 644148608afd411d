#pragma once

#include "mica/ops/reduce/reduce.h"
#include "mica/ops/scan/scan.h"

// Products of complex numbers, made of products of real ones and of elements.
namespace mica {

/// (…, M, K) x (…, K, N), one or both complex.
Tensor complex_matmul(const Tensor& a, const Tensor& b);
/// By halves: as many passes as a size has binary digits.
Tensor complex_prod(const Tensor& x, const ReduceParams& params);
Tensor complex_cumprod(const Tensor& x, const ScanParams& params);

}  // namespace mica
