#include <cmath>

#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/linalg/linalg.h"
#include "mica/ops/linalg/matrix.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/operators.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/where/where.h"

namespace mica::linalg {
namespace {

Tensor in_dtype(const Tensor& x, std::optional<DType> dtype) {
  const Tensor wide = dtype ? cast(x, *dtype) : x;
  check<DTypeError>(is_differentiable(wide.dtype()),
                    "linalg.norm: expected a floating or complex dtype, got {}", wide.dtype());
  return wide;
}

/// The two axes of matrices, in [0, rank).
std::pair<int, int> two_axes(const char* op, const Tensor& x, const Dims& axes) {
  check<ShapeError>(axes.rank() == 2, "{}: dim must be two axes, got {}", op, axes);
  const int first = normalize_axis(axes[0], x.rank(), op);
  const int second = normalize_axis(axes[1], x.rank(), op);
  check<ShapeError>(first != second, "{}: dim must be two different axes, got {}", op, axes);
  return {first, second};
}

/// The singular values, (…, k), of the matrices in two axes.
Tensor values_in(const Tensor& x, int first, int second) {
  return svdvals(movedim(x, {first, second}, {-2, -1}));
}

/// A result without the two axes, or with a size of 1 for each.
Tensor shaped(const Tensor& result, int first, int second, bool keepdim) {
  if (!keepdim) return result;
  const Tensor with_lower = unsqueeze(result, std::min(first, second));
  return unsqueeze(with_lower, std::max(first, second));
}

constexpr const char* kMatrixNorm = "linalg.matrix_norm";

}  // namespace

Tensor vector_norm(const Tensor& x, double ord, const Dims& axes, bool keepdim,
                   std::optional<DType> dtype) {
  return mica::norm(in_dtype(x, dtype), ord, axes, keepdim);
}

Tensor matrix_norm(const Tensor& given, MatrixNorm ord, const Dims& axes, bool keepdim,
                   std::optional<DType> dtype) {
  const Tensor x = in_dtype(given, dtype);
  check_matrix(kMatrixNorm, x.spec());
  const auto [first, second] = two_axes(kMatrixNorm, x, axes);
  if (ord == MatrixNorm::fro) return mica::norm(x, 2, {first, second}, keepdim);
  return shaped(sum(values_in(x, first, second), {-1}), first, second, keepdim);
}

Tensor matrix_norm(const Tensor& given, double ord, const Dims& axes, bool keepdim,
                   std::optional<DType> dtype) {
  const Tensor x = in_dtype(given, dtype);
  check_matrix(kMatrixNorm, x.spec());
  const auto [first, second] = two_axes(kMatrixNorm, x, axes);
  const double size = std::abs(ord);
  check<Unsupported>(size == 1 || size == 2 || std::isinf(ord),
                     "{}: ord must be 'fro', 'nuc', ±1, ±2 or ±infinity, got {}", kMatrixNorm, ord);
  Tensor sizes;
  if (size == 2) {
    sizes = values_in(x, first, second);
  } else {
    // Sums over the rows' axis for 1, over the columns' for infinity; the other axis comes last.
    const bool columns = size == 1;
    const int summed = columns ? first : second;
    const int kept = columns ? second : first;
    const Tensor sums = sum(abs(x), {summed});
    sizes = movedim(sums, {kept - (kept > summed ? 1 : 0)}, {-1});
  }
  check<ShapeError>(sizes.shape().back() > 0,
                    "{}: the matrices {} have no largest or smallest value", kMatrixNorm,
                    x.shape());
  const Tensor result = ord > 0 ? max(sizes, {-1}) : min(sizes, {-1});
  return shaped(result, first, second, keepdim);
}

Tensor norm(const Tensor& x, std::optional<double> ord, const Dims& axes, bool keepdim,
            std::optional<DType> dtype) {
  if (!ord) return vector_norm(x, 2, axes, keepdim, dtype);
  if (axes.rank() == 1 || (axes.empty() && x.rank() == 1))
    return vector_norm(x, *ord, axes, keepdim, dtype);
  check<ShapeError>(axes.rank() == 2 || (axes.empty() && x.rank() == 2),
                    "linalg.norm: with ord it takes one or two axes, got dim {} of {}", axes,
                    x.shape());
  return matrix_norm(x, *ord, axes.empty() ? Dims{0, 1} : axes, keepdim, dtype);
}

Tensor norm(const Tensor& x, MatrixNorm ord, const Dims& axes, bool keepdim,
            std::optional<DType> dtype) {
  check<ShapeError>(axes.rank() == 2 || (axes.empty() && x.rank() == 2),
                    "linalg.norm: of a matrix it takes two axes, got dim {} of {}", axes,
                    x.shape());
  return matrix_norm(x, ord, axes.empty() ? Dims{0, 1} : axes, keepdim, dtype);
}

Tensor cond(const Tensor& a, std::optional<double> p) {
  check_matrix("linalg.cond", a.spec());
  if (!p || std::abs(*p) == 2) {
    const Tensor s = svdvals(a);
    check<ShapeError>(s.shape().back() > 0, "linalg.cond: the matrices {} have no singular values",
                      a.shape());
    const Tensor largest = max(s, {-1});
    const Tensor least = min(s, {-1});
    return p && *p == -2 ? least / largest : largest / least;
  }
  check_square("linalg.cond", a.spec());
  const InvEx inverse = inv_ex(a);
  // Of a singular matrix it is infinite.
  const Tensor product = matrix_norm(a, *p) * matrix_norm(inverse.inverse, *p);
  return where(inverse.info != 0, std::numeric_limits<double>::infinity(), product);
}

Tensor cond(const Tensor& a, MatrixNorm p) {
  check_square("linalg.cond", a.spec());
  const InvEx inverse = inv_ex(a);
  if (p == MatrixNorm::nuc) return matrix_norm(a, p) * matrix_norm(inv(a), p);
  const Tensor product = matrix_norm(a, p) * matrix_norm(inverse.inverse, p);
  return where(inverse.info != 0, std::numeric_limits<double>::infinity(), product);
}

}  // namespace mica::linalg
