#pragma once

#include <optional>
#include <span>
#include <string>

#include "mica/core/tensor.h"

namespace mica {

enum class SparseLayout : uint8_t { coo, csr, csc };
std::span<const char* const> names_of(SparseLayout);

/// A matrix of which some entries are kept; the others are zero. It is made of tensors, so that
/// gradients, compiled functions, devices and files need nothing else:
///
///     layout   indices                                         values
///     coo      indices (2, entries): row and column of each    (entries)
///     csr      crow_indices (rows + 1), col_indices (entries)  (entries), row by row
///     csc      ccol_indices (columns + 1), row_indices         (entries), column by column
///
/// Indices are i32 or i64. An entry may come more than once: they are added up. Copies share their
/// parts. Gradients belong to `values()`, and to what it was made of.
class SparseTensor {
 public:
  SparseTensor() = default;

  bool defined() const { return values_.defined(); }
  SparseLayout layout() const { return layout_; }
  const Shape& shape() const { return shape_; }
  int rank() const { return 2; }
  /// Of axis 0 or 1; negative ones count from the end.
  int64_t size(int axis) const;
  /// Entries that are kept.
  int64_t nnz() const { return values_.numel(); }
  DType dtype() const { return values_.dtype(); }
  Device device() const { return values_.device(); }

  // The parts. Those that the layout has not raise Unsupported.
  const Tensor& values() const { return values_; }
  const Tensor& indices() const;
  const Tensor& crow_indices() const;
  const Tensor& col_indices() const;
  const Tensor& ccol_indices() const;
  const Tensor& row_indices() const;
  /// The same places with other values, such as relu(a.values()).
  SparseTensor with_values(const Tensor& values) const;

  /// Known to have its entries in the order of the layout, none of them twice.
  bool is_coalesced() const { return coalesced_; }
  /// The same matrix with entries that are: sorted, equal ones added up.
  SparseTensor coalesce() const;

  Tensor to_dense() const;
  SparseTensor to_sparse() const;
  SparseTensor to_sparse_csr() const;
  SparseTensor to_sparse_csc() const;
  SparseTensor to_layout(SparseLayout layout) const;
  SparseTensor to(Device device) const;
  SparseTensor to(DType dtype) const;

  /// Of all entries, or along an axis: a dense tensor.
  Tensor sum(std::optional<int64_t> dim = std::nullopt) const;
  /// The transpose, on the same memory: of csr it is csc, and the other way round.
  SparseTensor t() const;
  SparseTensor detach() const { return with_values(values_.detach()); }
  bool requires_grad() const { return values_.requires_grad(); }
  /// Of the values.
  const SparseTensor& set_requires_grad(bool value = true) const;
  /// The gradient that backward gave the values, at the same places; undefined before.
  SparseTensor grad() const;

 private:
  friend SparseTensor sparse_coo_tensor(const Tensor&, const Tensor&, const std::optional<Shape>&);
  friend SparseTensor sparse_csr_tensor(const Tensor&, const Tensor&, const Tensor&, const Shape&);
  friend SparseTensor sparse_csc_tensor(const Tensor&, const Tensor&, const Tensor&, const Shape&);
  friend struct SparseParts;
  SparseTensor(SparseLayout layout, const Shape& shape, Tensor compressed, Tensor plain,
               Tensor values, bool coalesced)
      : layout_(layout),
        coalesced_(coalesced),
        shape_(shape),
        compressed_(std::move(compressed)),
        plain_(std::move(plain)),
        values_(std::move(values)) {}

  SparseLayout layout_ = SparseLayout::coo;
  bool coalesced_ = false;
  Shape shape_;
  Tensor compressed_;  // crow or ccol; undefined for coo
  Tensor plain_;       // col or row; of coo (2, entries)
  Tensor values_;
};

/// From indices (2, entries) and values (entries); without a shape, the smallest that has all of
/// them.
SparseTensor sparse_coo_tensor(const Tensor& indices, const Tensor& values,
                               const std::optional<Shape>& size = std::nullopt);
/// Raises IndexError where the indices are no matrix of this size.
SparseTensor sparse_csr_tensor(const Tensor& crow_indices, const Tensor& col_indices,
                               const Tensor& values, const Shape& size);
SparseTensor sparse_csc_tensor(const Tensor& ccol_indices, const Tensor& row_indices,
                               const Tensor& values, const Shape& size);

/// The entries of a matrix that are not zero. How many there are is read, so that compiled
/// functions cannot.
SparseTensor to_sparse(const Tensor& input);
SparseTensor to_sparse_csr(const Tensor& input);
SparseTensor to_sparse_csc(const Tensor& input);

// Of two matrices of one shape, with the layout of the first. Which entries there are is read,
// unless both have the same tensors of indices.
SparseTensor operator+(const SparseTensor& a, const SparseTensor& b);
SparseTensor operator-(const SparseTensor& a, const SparseTensor& b);
SparseTensor operator*(const SparseTensor& a, const SparseTensor& b);
/// The entries times those of a tensor that broadcasts to the shape.
SparseTensor operator*(const SparseTensor& a, const Tensor& b);
SparseTensor operator*(const SparseTensor& a, Number b);
SparseTensor operator/(const SparseTensor& a, Number b);
SparseTensor operator-(const SparseTensor& a);
/// A dense sum.
Tensor operator+(const SparseTensor& a, const Tensor& b);

/// `SparseTensor(csr, [3, 4], nnz=5, f32)`.
std::string to_string(const SparseTensor& a);

}  // namespace mica
