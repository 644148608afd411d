#pragma once

#include "mica/op/kernel.h"

namespace mica {

/// matmul and linear as their kernels see them: `batches` products of (m, k) and (k, n) into a
/// row-major (batches, m, n) result. Leading dimensions are merged into m where strides allow it.
struct MatmulProblem {
  int64_t m = 0, n = 0, k = 0;
  int64_t a_row = 0, a_col = 0;  ///< strides of one left matrix
  int64_t b_row = 0, b_col = 0;  ///< strides of one right matrix
  Dims batch;                    ///< sizes of the leading dimensions that could not be merged
  Dims a_batch, b_batch;         ///< their strides; 0 where an operand is broadcast

  int64_t batches() const { return numel(batch); }
  int64_t a_offset(int64_t index) const { return offset(index, a_batch); }
  int64_t b_offset(int64_t index) const { return offset(index, b_batch); }

 private:
  int64_t offset(int64_t index, const Dims& strides) const {
    int64_t at = 0;
    for (int d = batch.rank() - 1; d >= 0; --d) {
      at += index % batch[d] * strides[d];
      index /= batch[d];
    }
    return at;
  }
};

MatmulProblem matmul_problem(const TensorSpec& a, const TensorSpec& b);
MatmulProblem linear_problem(const TensorSpec& x, const TensorSpec& weight);
/// linear_wgrad's product: dy (rows, out) transposed times x (rows, in).
MatmulProblem linear_wgrad_problem(const TensorSpec& dy, const TensorSpec& x);

/// Multiplications and additions of `results` sums over k products each.
inline double product_flops(int64_t results, int64_t k) {
  return 2.0 * static_cast<double>(results) * static_cast<double>(k);
}
/// Of an op whose first input (…, K) is multiplied into its first output.
template <class P>
double product_flops(const P&, const Specs& s) {
  return product_flops(s.out[0].numel(), s.in[0].shape.back());
}

Kernel matmul_reference_kernel();
Kernel linear_reference_kernel();
Kernel linear_wgrad_composed_kernel();
Kernel linear_wgrad_reference_kernel();
Kernel matmul_blocked_kernel();
Kernel linear_blocked_kernel();

}  // namespace mica
