#include "mica/core/check.h"
#include "mica/op/fields.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/index/index.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/sort/sort.h"
#include "mica/ops/sparse/parts.h"
#include "mica/ops/sparse/sparse.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

void check_same_shape(const char* op, const Shape& a, const Shape& b) {
  check<ShapeError>(a == b, "{}: expected sparse tensors of one shape, got {} and {}", op, a, b);
}

/// Whether both have the same tensors of indices, so that entry i of either is at one place.
bool share_indices(const SparseTensor& a, const SparseTensor& b) {
  const SparseParts p = SparseParts::of(a);
  const SparseParts q = SparseParts::of(b);
  return p.layout == q.layout && p.plain.impl() == q.plain.impl() &&
         p.compressed.impl() == q.compressed.impl();
}

/// The entries of both, as coo.
struct Joined {
  SparseTensor a, b;
  Tensor indices;
};
Joined join(const SparseTensor& a, const SparseTensor& b) {
  const SparseTensor left = a.to_sparse();
  const SparseTensor right = b.to_sparse();
  const DType type = left.indices().dtype();
  return {left, right, concat({left.indices(), cast(right.indices(), type)}, 1)};
}

Tensor in_dtype(const Tensor& x, DType type) { return x.dtype() == type ? x : cast(x, type); }

/// csr's parts with values of the dtype.
CsrParts parts_in(const SparseTensor& a, DType type) {
  const SparseTensor csr = a.to_sparse_csr();
  return {csr.crow_indices(), csr.col_indices(), in_dtype(csr.values(), type)};
}

}  // namespace

SparseTensor operator+(const SparseTensor& a, const SparseTensor& b) {
  check_same_shape("add", a.shape(), b.shape());
  if (share_indices(a, b)) return a.with_values(add(a.values(), b.values()));
  const Joined both = join(a, b);
  const DType type = promote(a.dtype(), b.dtype());
  const Tensor values = concat({in_dtype(both.a.values(), type), in_dtype(both.b.values(), type)});
  return SparseParts{SparseLayout::coo, a.shape(), {}, both.indices, values, false}
      .make()
      .coalesce()
      .to_layout(a.layout());
}

SparseTensor operator-(const SparseTensor& a) { return a.with_values(neg(a.values())); }
SparseTensor operator-(const SparseTensor& a, const SparseTensor& b) { return a + (-b); }

/// Entries of both at one place are neighbours when all are sorted by place.
SparseTensor operator*(const SparseTensor& a, const SparseTensor& b) {
  check_same_shape("mul", a.shape(), b.shape());
  if (share_indices(a, b) && a.is_coalesced()) return a.with_values(mul(a.values(), b.values()));
  const Joined both = join(a.coalesce(), b.coalesce());
  const Sorted sorted = sort(coo_keys(both.indices, {a.size(0), a.size(1)}));
  const int64_t n = both.indices.size(1);
  const Tensor at =
      n < 2
          ? zeros({0}, {DType::i64, a.device()})
          : flatten(nonzero(eq(slice(sorted.values, 0, 0, n - 1), slice(sorted.values, 0, 1, n))));
  const Tensor of_a = index_select(sorted.indices, 0, at);
  const Tensor of_b = sub(index_select(sorted.indices, 0, add(at, 1)), both.a.nnz());
  const Tensor values =
      mul(index_select(both.a.values(), 0, of_a), index_select(both.b.values(), 0, of_b));
  return SparseParts{
      SparseLayout::coo, a.shape(), {}, index_select(both.a.indices(), 1, of_a), values, true}
      .make()
      .to_layout(a.layout());
}

SparseTensor operator*(const SparseTensor& a, const Tensor& b) {
  if (b.rank() == 0) return a.with_values(mul(a.values(), b));
  // Entries of csc are numbered by column: those of the transpose, which is csr, by row.
  if (a.layout() == SparseLayout::csc) return (a.t() * transpose(expand(b, a.shape()), 0, 1)).t();
  const SparseTensor coo = a.to_sparse();
  const Tensor factors = index(expand(b, a.shape()), {coordinate(coo, 0), coordinate(coo, 1)});
  return a.with_values(mul(a.values(), factors));
}
SparseTensor operator*(const SparseTensor& a, Number b) {
  return a.with_values(mul(a.values(), b));
}
SparseTensor operator/(const SparseTensor& a, Number b) {
  return a.with_values(div(a.values(), b));
}

Tensor operator+(const SparseTensor& a, const Tensor& b) { return add(a.to_dense(), b); }

namespace sparse {

Tensor mm(const SparseTensor& a, const Tensor& b) {
  check<ShapeError>((b.rank() == 2 || b.rank() == 1) && b.size(0) == a.size(1),
                    "sparse.mm: {} and {} cannot be multiplied", a.shape(), b.shape());
  const DType type = promote(a.dtype(), b.dtype());
  const CsrParts p = parts_in(a, type);
  const Tensor dense = in_dtype(b.rank() == 1 ? unsqueeze(b, 1) : b, type);
  const Tensor y = csr_matmul(p.crow, p.col, p.values, dense);
  return b.rank() == 1 ? flatten(y) : y;
}

Tensor mm(const Tensor& a, const SparseTensor& b) {
  check<ShapeError>((a.rank() == 2 || a.rank() == 1) && a.size(a.rank() - 1) == b.size(0),
                    "sparse.mm: {} and {} cannot be multiplied", a.shape(), b.shape());
  if (a.rank() == 1) return mm(b.t(), a);
  return transpose(mm(b.t(), transpose(a, 0, 1)), 0, 1);
}

SparseTensor mm(const SparseTensor& a, const SparseTensor& b) {
  check<ShapeError>(a.size(1) == b.size(0), "sparse.mm: {} and {} cannot be multiplied", a.shape(),
                    b.shape());
  const DType type = promote(a.dtype(), b.dtype());
  const CsrParts left = parts_in(a, type);
  CsrParts right = parts_in(b, type);
  right.crow = in_dtype(right.crow, left.crow.dtype());
  right.col = in_dtype(right.col, left.col.dtype());
  return make_csr(csr_product(left, right, b.size(1)), {a.size(0), b.size(1)}, true)
      .to_layout(a.layout());
}

Tensor addmm(const Tensor& input, const SparseTensor& mat1, const Tensor& mat2, double beta,
             double alpha) {
  return add(mul(input, beta), mul(mm(mat1, mat2), alpha));
}

SparseTensor sampled_addmm(const SparseTensor& input, const Tensor& mat1, const Tensor& mat2,
                           double beta, double alpha) {
  check<Unsupported>(input.layout() != SparseLayout::coo,
                     "sparse.sampled_addmm: input must be csr or csc, got {}",
                     print_field(input.layout()));
  check<ShapeError>(mat1.rank() == 2 && mat2.rank() == 2 && mat1.size(1) == mat2.size(0) &&
                        mat1.size(0) == input.size(0) && mat2.size(1) == input.size(1),
                    "sparse.sampled_addmm: {} and {} cannot be multiplied to {}", mat1.shape(),
                    mat2.shape(), input.shape());
  const Tensor right = transpose(mat2, 0, 1);
  const bool csr = input.layout() == SparseLayout::csr;
  const SparseParts p = SparseParts::of(input);
  const Tensor products =
      csr_sampled_matmul(p.compressed, p.plain, csr ? mat1 : right, csr ? right : mat1);
  return input.with_values(add(mul(input.values(), beta), mul(products, alpha)));
}

Tensor sum(const SparseTensor& input, std::optional<int64_t> dim) {
  if (!dim) return mica::sum(input.values());
  check<IndexError>(*dim >= -2 && *dim < 2, "sparse.sum: dim must be 0 or 1, got {}", *dim);
  const int64_t kept = *dim % 2 == 0 ? 1 : 0;  // the axis
  if (input.layout() == (kept == 0 ? SparseLayout::csr : SparseLayout::csc) &&
      is_floating(input.dtype()))
    return row_sums(SparseParts::of(input).compressed, input.values());
  const SparseTensor coo = input.to_sparse();
  return index_add(zeros({input.size(static_cast<int>(kept))}, {input.dtype(), input.device()}), 0,
                   coordinate(coo, kept), coo.values());
}

}  // namespace sparse

Tensor SparseTensor::sum(std::optional<int64_t> dim) const { return sparse::sum(*this, dim); }

namespace sparse {
namespace {

SparseTensor softmax_along(const char* op, const SparseTensor& input, int64_t dim, bool log) {
  check<IndexError>(dim >= -2 && dim < 2, "sparse.{}: dim must be 0 or 1, got {}", op, dim);
  if (dim % 2 == 0) return softmax_along(op, input.t(), 1, log).t().to_layout(input.layout());
  const SparseTensor a = input.to_sparse_csr();
  return a.with_values(csr_softmax(a.crow_indices(), a.values(), {log})).to_layout(input.layout());
}

}  // namespace

SparseTensor softmax(const SparseTensor& input, int64_t dim) {
  return softmax_along("softmax", input, dim, false);
}
SparseTensor log_softmax(const SparseTensor& input, int64_t dim) {
  return softmax_along("log_softmax", input, dim, true);
}

}  // namespace sparse

}  // namespace mica
