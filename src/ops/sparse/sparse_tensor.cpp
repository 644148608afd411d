#include "mica/ops/sparse/sparse_tensor.h"

#include "mica/core/check.h"
#include "mica/op/fields.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/flip/flip.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/index/index.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/scan/scan.h"
#include "mica/ops/sort/sort.h"
#include "mica/ops/sparse/parts.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

Shape transposed(const Shape& shape) { return {shape[1], shape[0]}; }

void check_size(const char* what, const Shape& size) {
  check<ShapeError>(size.rank() == 2 && size[0] >= 0 && size[1] >= 0,
                    "{}: size must be (rows, columns), got {}", what, size);
}

void check_part(const char* what, const char* part, const Tensor& t, const Tensor& values) {
  check(t.defined() && values.defined(), "{}: {} and values must be there", what, part);
  check<DTypeError>(t.dtype() == DType::i32 || t.dtype() == DType::i64,
                    "{}: {} must be i32 or i64, got {}", what, part, t.dtype());
  check<DeviceError>(t.device() == values.device(), "{}: {} are on {}, values on {}", what, part,
                     t.device(), values.device());
}

void check_one_value_each(const char* what, const Tensor& values, int64_t entries) {
  check<ShapeError>(values.shape() == Shape{entries},
                    "{}: values must be [{}], one for each entry, got {}", what, entries,
                    values.shape());
}

/// Looks at the indices where they can be read; else the kernels that use them do.
bool known_sorted(const Tensor& compressed, const Tensor& plain, int64_t across) {
  const bool later = compressed.is_traced() || plain.is_traced() || !plain.device().is_cpu();
  return !later && csr_check(compressed, plain, across).item() != 0;
}

/// A csr or csc of `along` rows or columns; `across` is the other size.
SparseTensor compressed_tensor(const char* what, SparseLayout layout, const Tensor& compressed,
                               const Tensor& plain, const Tensor& values, const Shape& size) {
  const bool csr = layout == SparseLayout::csr;
  check_size(what, size);
  check_part(what, csr ? "crow_indices" : "ccol_indices", compressed, values);
  check_part(what, csr ? "col_indices" : "row_indices", plain, values);
  check<DTypeError>(plain.dtype() == compressed.dtype(),
                    "{}: both tensors of indices must have one dtype, got {} and {}", what,
                    compressed.dtype(), plain.dtype());
  const int64_t along = size[csr ? 0 : 1];
  check<ShapeError>(compressed.rank() == 1 && compressed.numel() == along + 1,
                    "{}: {} must be [{}], one more than size {} has {}, got {}", what,
                    csr ? "crow_indices" : "ccol_indices", along + 1, size,
                    csr ? "rows" : "columns", compressed.shape());
  check<ShapeError>(plain.rank() == 1, "{}: {} must be [entries], got {}", what,
                    csr ? "col_indices" : "row_indices", plain.shape());
  check_one_value_each(what, values, plain.numel());
  const bool sorted = known_sorted(compressed, plain, size[csr ? 1 : 0]);
  return SparseParts{layout, size, compressed, plain, values, sorted}.make();
}

[[noreturn]] void no_part(const char* part, SparseLayout layout) {
  fail<Unsupported>("{}: a sparse tensor of layout {} has none", part, print_field(layout));
}

/// csr as coo: entries are where they were.
SparseTensor csr_to_coo(const SparseTensor& a) {
  return SparseParts{SparseLayout::coo,
                     a.shape(),
                     {},
                     csr_coordinates(a.crow_indices(), a.col_indices(), a.size(1)),
                     a.values(),
                     a.is_coalesced()}
      .make();
}

/// csr as csc, and csc as csr.
SparseTensor other_compression(const SparseTensor& a) {
  const bool csr = a.layout() == SparseLayout::csr;
  const SparseParts p = SparseParts::of(a);
  const CsrTransposed t = csr_transpose(p.compressed, p.plain, a.size(csr ? 1 : 0));
  return SparseParts{csr ? SparseLayout::csc : SparseLayout::csr, a.shape(),       t.crow, t.col,
                     index_select(a.values(), 0, t.order),        a.is_coalesced()}
      .make();
}

/// Entries of a coo in order are those of csr; rows begin where the first of them stands.
SparseTensor coo_to_csr(const SparseTensor& given) {
  const SparseTensor a = given.coalesce();
  const Tensor starts = arange(a.size(0) + 1, {DType::i64, a.device()});
  const Tensor crow = searchsorted(cast(coordinate(a, 0), DType::i64), starts);
  return make_csr({cast(crow, a.indices().dtype()), coordinate(a, 1), a.values()}, a.shape(), true);
}

SparseTensor coalesced(const SparseTensor& a) {
  const Sorted sorted = sort(coo_keys(a.indices(), {a.size(0), a.size(1)}));
  const Tensor first = first_of_each(sorted.values);
  const Tensor at = flatten(nonzero(first));
  const Tensor ordered = index_select(a.values(), 0, sorted.indices);
  const auto sums = [&] {
    if (is_floating(a.dtype()))
      return row_sums(concat({at, full({1}, a.nnz(), {DType::i64, a.device()})}), ordered);
    const Tensor place = sub(cumsum(first, 0), 1);
    return index_add(zeros(at.shape(), {a.dtype(), a.device()}), 0, place, ordered);
  };
  return SparseParts{SparseLayout::coo,
                     a.shape(),
                     {},
                     index_select(a.indices(), 1, index_select(sorted.indices, 0, at)),
                     sums(),
                     true}
      .make();
}

}  // namespace

std::span<const char* const> names_of(SparseLayout) {
  static constexpr const char* kNames[] = {"coo", "csr", "csc"};
  return kNames;
}

Tensor coordinate(const SparseTensor& coo, int64_t axis) { return select(coo.indices(), 0, axis); }

/// A product with a matrix of one column, which sums in a fixed order and in threads.
Tensor row_sums(const Tensor& crow, const Tensor& values) {
  const Tensor first = zeros(values.shape(), {crow.dtype(), crow.device()});
  return flatten(csr_matmul(crow, first, values, ones({1, 1}, {values.dtype(), values.device()})));
}

Tensor first_of_each(const Tensor& sorted) {
  const int64_t n = sorted.numel();
  Tensor start = ones({std::min<int64_t>(n, 1)}, {DType::boolean, sorted.device()});
  if (n < 2) return start;
  return concat({start, ne(slice(sorted, 0, 1, n), slice(sorted, 0, 0, n - 1))});
}

int64_t SparseTensor::size(int axis) const {
  check<IndexError>(axis >= -2 && axis < 2, "size: a sparse tensor has axes 0 and 1, not {}", axis);
  return shape_[axis < 0 ? axis + 2 : axis];
}

const Tensor& SparseTensor::indices() const {
  if (layout_ != SparseLayout::coo) no_part("indices", layout_);
  return plain_;
}
const Tensor& SparseTensor::crow_indices() const {
  if (layout_ != SparseLayout::csr) no_part("crow_indices", layout_);
  return compressed_;
}
const Tensor& SparseTensor::col_indices() const {
  if (layout_ != SparseLayout::csr) no_part("col_indices", layout_);
  return plain_;
}
const Tensor& SparseTensor::ccol_indices() const {
  if (layout_ != SparseLayout::csc) no_part("ccol_indices", layout_);
  return compressed_;
}
const Tensor& SparseTensor::row_indices() const {
  if (layout_ != SparseLayout::csc) no_part("row_indices", layout_);
  return plain_;
}

SparseTensor SparseTensor::with_values(const Tensor& values) const {
  check_one_value_each("with_values", values, nnz());
  check<DeviceError>(values.device() == device(), "with_values: indices are on {}, values on {}",
                     device(), values.device());
  return {layout_, shape_, compressed_, plain_, values, coalesced_};
}

SparseTensor SparseTensor::coalesce() const {
  if (coalesced_) return *this;
  return layout_ == SparseLayout::coo ? coalesced(*this)
                                      : coalesced(to_sparse()).to_layout(layout_);
}

Tensor SparseTensor::to_dense() const {
  const SparseTensor a = to_sparse();
  // Looks at the indices: index_put would count negative ones from the end.
  const Tensor keys = coo_keys(a.indices(), {size(0), size(1)});
  const Tensor flat = zeros({size(0) * size(1)}, {dtype(), device()});
  return reshape(index_put(flat, {keys}, a.values(), true), shape_);
}

SparseTensor SparseTensor::to_layout(SparseLayout layout) const {
  if (layout_ == layout) return *this;
  if (layout_ == SparseLayout::coo) {
    const SparseTensor csr = coo_to_csr(*this);
    return layout == SparseLayout::csr ? csr : other_compression(csr);
  }
  if (layout == SparseLayout::coo)
    return csr_to_coo(layout_ == SparseLayout::csr ? *this : other_compression(*this));
  return other_compression(*this);
}
SparseTensor SparseTensor::to_sparse() const { return to_layout(SparseLayout::coo); }
SparseTensor SparseTensor::to_sparse_csr() const { return to_layout(SparseLayout::csr); }
SparseTensor SparseTensor::to_sparse_csc() const { return to_layout(SparseLayout::csc); }

SparseTensor SparseTensor::to(Device device) const {
  const Tensor compressed = compressed_.defined() ? compressed_.to(device) : Tensor();
  return {layout_, shape_, compressed, plain_.to(device), values_.to(device), coalesced_};
}
SparseTensor SparseTensor::to(DType dtype) const { return with_values(values_.to(dtype)); }

SparseTensor SparseTensor::t() const {
  if (layout_ == SparseLayout::coo)
    return {layout_, transposed(shape_), {}, flip(plain_, {0}), values_, false};
  const bool csr = layout_ == SparseLayout::csr;
  return {csr ? SparseLayout::csc : SparseLayout::csr,
          transposed(shape_),
          compressed_,
          plain_,
          values_,
          coalesced_};
}

const SparseTensor& SparseTensor::set_requires_grad(bool value) const {
  values_.set_requires_grad(value);
  return *this;
}

SparseTensor SparseTensor::grad() const {
  const Tensor g = values_.grad();
  return g.defined() ? with_values(g) : SparseTensor();
}

SparseTensor sparse_coo_tensor(const Tensor& indices, const Tensor& values,
                               const std::optional<Shape>& size) {
  constexpr const char* kWhat = "sparse_coo_tensor";
  check_part(kWhat, "indices", indices, values);
  check<ShapeError>(indices.rank() == 2 && indices.size(0) == 2,
                    "{}: indices must be [2, entries], got {}", kWhat, indices.shape());
  check_one_value_each(kWhat, values, indices.size(1));
  Shape shape = size.value_or(Shape{0, 0});
  if (!size && values.numel() > 0) {
    const Tensor most = max(indices, {1});
    for (int axis = 0; axis < 2; ++axis)
      shape[axis] = std::max<int64_t>(most[axis].item_number().as<int64_t>() + 1, 0);
  }
  check_size(kWhat, shape);
  // The keys are not used: they are there when every index is in range.
  if (!indices.is_traced() && indices.device().is_cpu()) coo_keys(indices, {shape[0], shape[1]});
  return {SparseLayout::coo, shape, {}, indices, values, values.numel() < 2};
}

SparseTensor sparse_csr_tensor(const Tensor& crow_indices, const Tensor& col_indices,
                               const Tensor& values, const Shape& size) {
  return compressed_tensor("sparse_csr_tensor", SparseLayout::csr, crow_indices, col_indices,
                           values, size);
}

SparseTensor sparse_csc_tensor(const Tensor& ccol_indices, const Tensor& row_indices,
                               const Tensor& values, const Shape& size) {
  return compressed_tensor("sparse_csc_tensor", SparseLayout::csc, ccol_indices, row_indices,
                           values, size);
}

SparseTensor to_sparse(const Tensor& input) {
  check<ShapeError>(input.rank() == 2, "to_sparse: expected a matrix, got {}", input.shape());
  const Tensor at = transpose(nonzero(input), 0, 1);
  const Tensor values = index(input, {select(at, 0, 0), select(at, 0, 1)});
  return SparseParts{SparseLayout::coo, input.shape(), {}, contiguous(at), values, true}.make();
}
SparseTensor to_sparse_csr(const Tensor& input) { return to_sparse(input).to_sparse_csr(); }
SparseTensor to_sparse_csc(const Tensor& input) { return to_sparse(input).to_sparse_csc(); }

std::string to_string(const SparseTensor& a) {
  if (!a.defined()) return "SparseTensor()";
  return fmt::format("SparseTensor({}, {}, nnz={}, {})", print_field(a.layout()), a.shape(),
                     a.nnz(), a.dtype());
}

}  // namespace mica
