#include "mica/ops/matmul/products.h"

#include "mica/core/check.h"
#include "mica/op/autocast.h"
#include "mica/op/function.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/view/view.h"

namespace mica {
namespace {

void check_matrices(const char* op, int rank, const char* words, const Tensor& a, const Tensor& b) {
  check<ShapeError>(a.rank() == rank && b.rank() == rank, "{}: expected {}, got {} and {}", op,
                    words, a.shape(), b.shape());
  check<ShapeError>(rank == 2 || a.size(0) == b.size(0),
                    "{}: expected as many matrices in both, got {} and {}", op, a.shape(),
                    b.shape());
}

Tensor add_product(const char* op, const Tensor& x, const Tensor& product,
                   const AddProductOptions& options) {
  check<ShapeError>(broadcast_shapes(x.shape(), product.shape(), op) == product.shape(),
                    "{}: input must expand to the product's shape {}, got {}", op, product.shape(),
                    x.shape());
  Tensor scaled = options.alpha == 1 ? product : mul(product, options.alpha);
  if (options.beta == 0) return scaled;
  return add(options.beta == 1 ? x : mul(x, options.beta), scaled);
}

/// Axes in [0, rank), each once.
Dims summed_axes(const Tensor& x, const Dims& axes) {
  Dims known;
  for (const int64_t axis : axes) {
    const int at = normalize_axis(axis, x.rank(), "tensordot");
    check<ShapeError>(!known.contains(at), "tensordot: axes {} name one twice", axes);
    known.push_back(at);
  }
  return known;
}

/// The axes of x that are not among `axes`.
Dims other_axes(const Tensor& x, const Dims& axes) {
  Dims others;
  for (int i = 0; i < x.rank(); ++i)
    if (!axes.contains(i)) others.push_back(i);
  return others;
}

Dims joined(Dims first, const Dims& second) {
  for (const int64_t value : second) first.push_back(value);
  return first;
}

Shape sizes_of(const Tensor& x, const Dims& axes) {
  Shape sizes;
  for (const int64_t axis : axes) sizes.push_back(x.shape()[static_cast<int>(axis)]);
  return sizes;
}

}  // namespace

Tensor mm(const Tensor& a, const Tensor& b) {
  check_matrices("mm", 2, "two matrices", a, b);
  return matmul(a, b);
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  check_matrices("bmm", 3, "two batches of matrices (B, M, K) and (B, K, N)", a, b);
  return matmul(a, b);
}

Tensor mv(const Tensor& a, const Tensor& b) {
  check<ShapeError>(a.rank() == 2 && b.rank() == 1,
                    "mv: expected a matrix and a vector, got {} and {}", a.shape(), b.shape());
  return matmul(a, b);
}

Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, const AddProductOptions& options) {
  const ComputedIn precision(Precision::low);
  check_matrices("addmm", 2, "two matrices", a, b);
  return add_product("addmm", x, matmul(a, b), options);
}

Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b,
               const AddProductOptions& options) {
  const ComputedIn precision(Precision::low);
  check_matrices("baddbmm", 3, "two batches of matrices (B, M, K) and (B, K, N)", a, b);
  return add_product("baddbmm", x, matmul(a, b), options);
}

Tensor tensordot(const Tensor& a, const Tensor& b, const Dims& axes_a, const Dims& axes_b) {
  const Dims of_a = summed_axes(a, axes_a);
  const Dims of_b = summed_axes(b, axes_b);
  const Shape summed = sizes_of(a, of_a);
  check<ShapeError>(summed == sizes_of(b, of_b),
                    "tensordot: axes {} of {} and {} of {} must have the same sizes", axes_a,
                    a.shape(), axes_b, b.shape());
  const Dims rows = other_axes(a, of_a);
  const Dims columns = other_axes(b, of_b);
  const Shape row_sizes = sizes_of(a, rows);
  const Shape column_sizes = sizes_of(b, columns);
  const int64_t k = numel(summed);
  const Tensor left = reshape(permute(a, joined(rows, of_a)), {numel(row_sizes), k});
  const Tensor right = reshape(permute(b, joined(of_b, columns)), {k, numel(column_sizes)});
  return reshape(matmul(left, right), joined(row_sizes, column_sizes));
}

Tensor tensordot(const Tensor& a, const Tensor& b, int64_t n) {
  check<ShapeError>(n >= 0 && n <= a.rank() && n <= b.rank(),
                    "tensordot: cannot sum over {} axes of {} and {}", n, a.shape(), b.shape());
  Dims last;
  Dims first;
  for (int64_t i = 0; i < n; ++i) {
    last.push_back(a.rank() - n + i);
    first.push_back(i);
  }
  return tensordot(a, b, last, first);
}

Functions products_functions() {
  const auto product = [](const char* name, Tensor (*f)(const Tensor&, const Tensor&),
                          const char* doc, const char* second) {
    return Function{.name = name,
                    .doc = doc,
                    .signatures = {{f, {"input", second}}},
                    .precision = Precision::low};
  };
  return {
      product("mm", mm, "The matrix product of two matrices (M, K) and (K, N): (M, N).", "mat2"),
      product("bmm", bmm, "The matrix products of two batches (B, M, K) and (B, K, N): (B, M, N).",
              "mat2"),
      product("mv", mv, "The product of a matrix (M, K) and a vector (K): (M).", "vec"),
      {.name = "addmm",
       .doc = "beta * input + alpha * (mat1 @ mat2) of matrices (M, K) and (K, N); input expands "
              "to (M, N) and is not read where beta is 0.",
       .signatures = {{[](const Tensor& x, const Tensor& a, const Tensor& b, double beta,
                          double alpha) { return addmm(x, a, b, {.beta = beta, .alpha = alpha}); },
                       {"input", "mat1", "mat2", kKeywordOnly, {"beta", 1.0}, {"alpha", 1.0}}}},
       .precision = Precision::low},
      {.name = "baddbmm",
       .doc = "beta * input + alpha * (batch1 @ batch2) of batches (B, M, K) and (B, K, N); input "
              "expands to (B, M, N) and is not read where beta is 0.",
       .signatures = {{[](const Tensor& x, const Tensor& a, const Tensor& b, double beta,
                          double alpha) {
                         return baddbmm(x, a, b, {.beta = beta, .alpha = alpha});
                       },
                       {"input", "batch1", "batch2", kKeywordOnly, {"beta", 1.0}, {"alpha", 1.0}}}},
       .precision = Precision::low},
      {.name = "tensordot",
       .doc = "The sum of products over axes of a and b, which must be of the same sizes: the last "
              "dims of a and the first of b, or those in two lists. The result has the other axes "
              "of a, then those of b.",
       .signatures = {{overload<const Tensor&, const Tensor&, int64_t>(tensordot),
                       {"a", "b", {"dims", 2}}},
                      {[](const Tensor& a, const Tensor& b, const std::pair<Dims, Dims>& dims) {
                         return tensordot(a, b, dims.first, dims.second);
                       },
                       {"a", "b", "dims"}}},
       .offer = kModule,
       .precision = Precision::low},
  };
}

}  // namespace mica
