#pragma once

#include "mica/core/tensor.h"

namespace mica {

// matmul of operands with these numbers of axes alone.

/// a (M, K) times b (K, N).
Tensor mm(const Tensor& a, const Tensor& b);
/// a (B, M, K) times b (B, K, N).
Tensor bmm(const Tensor& a, const Tensor& b);
/// a (M, K) times b (K).
Tensor mv(const Tensor& a, const Tensor& b);

struct AddProductOptions {
  double beta = 1;   ///< of x, which is not read where it is 0
  double alpha = 1;  ///< of the product
};

/// beta * x + alpha * mm(a, b); x expands to the product's shape.
Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b,
             const AddProductOptions& options = {});
/// beta * x + alpha * bmm(a, b); x expands to the product's shape.
Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b,
               const AddProductOptions& options = {});

/// The sum of products over axes_a of a and axes_b of b, pair by pair; the other axes of a, then
/// those of b.
Tensor tensordot(const Tensor& a, const Tensor& b, const Dims& axes_a, const Dims& axes_b);
/// The same over the last n axes of a and the first n of b.
Tensor tensordot(const Tensor& a, const Tensor& b, int64_t n = 2);

}  // namespace mica
