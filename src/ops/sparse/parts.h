#pragma once

#include "mica/ops/sparse/csr.h"
#include "mica/ops/sparse/sparse_tensor.h"

namespace mica {

/// Makes sparse tensors of parts that are known to fit.
struct SparseParts {
  SparseLayout layout;
  Shape shape;
  Tensor compressed, plain, values;
  bool coalesced;

  SparseTensor make() const { return {layout, shape, compressed, plain, values, coalesced}; }
  static SparseParts of(const SparseTensor& a) {
    return {a.layout_, a.shape_, a.compressed_, a.plain_, a.values_, a.coalesced_};
  }
};

/// The parts of a csr.
inline CsrParts csr_parts(const SparseTensor& a) {
  return {a.crow_indices(), a.col_indices(), a.values()};
}
inline SparseTensor make_csr(const CsrParts& parts, const Shape& shape, bool coalesced) {
  return SparseParts{SparseLayout::csr, shape, parts.crow, parts.col, parts.values, coalesced}
      .make();
}

/// Row (0) or column (1) of each entry of a coo.
Tensor coordinate(const SparseTensor& coo, int64_t axis);
/// The sum of each row's values, which are floating.
Tensor row_sums(const Tensor& crow, const Tensor& values);
/// True for the first of equal neighbours.
Tensor first_of_each(const Tensor& sorted);

}  // namespace mica
