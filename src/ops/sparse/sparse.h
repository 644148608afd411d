#pragma once

#include "mica/ops/sparse/sparse_tensor.h"

/// Products and functions of sparse matrices, with gradients for values and dense operands.
namespace mica::sparse {

/// A (M, N) times a dense (N, K), or a vector (N).
Tensor mm(const SparseTensor& a, const Tensor& b);
/// A dense (M, N) times B (N, K).
Tensor mm(const Tensor& a, const SparseTensor& b);
/// A product with the layout of the first; how many entries it has is read.
SparseTensor mm(const SparseTensor& a, const SparseTensor& b);

/// beta * input + alpha * (mat1 @ mat2) with a sparse mat1.
Tensor addmm(const Tensor& input, const SparseTensor& mat1, const Tensor& mat2, double beta = 1,
             double alpha = 1);
/// beta * input + alpha * (mat1 @ mat2), dense matrices, at the entries of input alone, which is
/// csr or csc.
SparseTensor sampled_addmm(const SparseTensor& input, const Tensor& mat1, const Tensor& mat2,
                           double beta = 1, double alpha = 1);

/// Of all entries, or along an axis: a dense tensor.
Tensor sum(const SparseTensor& input, std::optional<int64_t> dim = std::nullopt);

/// Along an axis, over the entries that are kept: the others count as minus infinity. An entry that
/// comes twice is added up first, unless indices of csr and csc are said to have none.
SparseTensor softmax(const SparseTensor& input, int64_t dim = -1);
SparseTensor log_softmax(const SparseTensor& input, int64_t dim = -1);

}  // namespace mica::sparse
