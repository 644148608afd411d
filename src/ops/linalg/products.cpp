#include "mica/ops/matmul/products.h"
#include "mica/op/function.h"
#include "mica/ops/complex/complex.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/flip/flip.h"
#include "mica/ops/linalg/linalg.h"
#include "mica/ops/linalg/matrix.h"
#include "mica/ops/matmul/matmul.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/scan/scan.h"

namespace mica {
namespace linalg {
namespace {

/// Where to split the product of matrices i … j, by the fewest multiplications.
class Order {
 public:
  explicit Order(const std::vector<double>& sizes)
      : n_(sizes.size() - 1), cost_(n_ * n_), split_(n_ * n_) {
    for (size_t length = 2; length <= n_; ++length)
      for (size_t i = 0; i + length <= n_; ++i) {
        const size_t j = i + length - 1;
        double best = -1;
        for (size_t k = i; k < j; ++k) {
          const double cost =
              cost_[i * n_ + k] + cost_[(k + 1) * n_ + j] + sizes[i] * sizes[k + 1] * sizes[j + 1];
          if (best >= 0 && cost >= best) continue;
          best = cost;
          split_[i * n_ + j] = k;
        }
        cost_[i * n_ + j] = best;
      }
  }
  Tensor product(const Tensors& matrices, size_t i, size_t j) const {
    if (i == j) return matrices[i];
    const size_t k = split_[i * n_ + j];
    return mica::matmul(product(matrices, i, k), product(matrices, k + 1, j));
  }

 private:
  size_t n_;
  std::vector<double> cost_;
  std::vector<size_t> split_;
};

}  // namespace

Tensor multi_dot(const Tensors& tensors) {
  check<ShapeError>(tensors.size() >= 2, "linalg.multi_dot: expected at least 2 tensors, got {}",
                    tensors.size());
  Tensors matrices = tensors;
  const bool row = matrices.front().rank() == 1;
  const bool column = matrices.back().rank() == 1;
  if (row) matrices.front() = unsqueeze(matrices.front(), 0);
  if (column) matrices.back() = unsqueeze(matrices.back(), 1);
  std::vector<double> sizes;
  for (size_t i = 0; i < matrices.size(); ++i) {
    const Tensor& m = matrices[i];
    check<ShapeError>(m.rank() == 2,
                      "linalg.multi_dot: tensor {} must be a matrix, or, first or last, a vector; "
                      "got {}",
                      i, tensors[i].shape());
    check<ShapeError>(i == 0 || m.size(0) == matrices[i - 1].size(1),
                      "linalg.multi_dot: tensors {} and {} do not fit: {} and {}", i - 1, i,
                      tensors[i == 0 ? 0 : i - 1].shape(), tensors[i].shape());
    sizes.push_back(static_cast<double>(m.size(0)));
  }
  sizes.push_back(static_cast<double>(matrices.back().size(1)));
  Tensor result = Order(sizes).product(matrices, 0, matrices.size() - 1);
  if (column) result = squeeze(result, {1});
  return row ? squeeze(result, {0}) : result;
}

Tensor cross(const Tensor& a, const Tensor& b, int64_t axis) {
  check<ShapeError>(a.rank() == b.rank() && a.rank() > 0,
                    "linalg.cross: both must have as many axes, got {} and {}", a.shape(),
                    b.shape());
  const int at = normalize_axis(axis, a.rank(), "linalg.cross");
  check<ShapeError>(a.size(at) == 3 && b.size(at) == 3,
                    "linalg.cross: axis {} must have a size of 3, got {} and {}", axis, a.shape(),
                    b.shape());
  const auto turned = [&](const Tensor& x, int64_t by) { return roll(x, {-by}, {at}); };
  return turned(a, 1) * turned(b, 2) - turned(a, 2) * turned(b, 1);
}

Tensor vecdot(const Tensor& x, const Tensor& y, int64_t axis) {
  const Shape shape = broadcast_shapes(x.shape(), y.shape(), "linalg.vecdot");
  check<ShapeError>(shape.rank() > 0, "linalg.vecdot: expected at least one axis");
  const int at = normalize_axis(axis, shape.rank(), "linalg.vecdot");
  return sum(conj(x) * y, {at});
}

Tensor vander(const Tensor& x, std::optional<int64_t> n) {
  check<ShapeError>(x.rank() >= 1, "linalg.vander: expected at least one axis");
  const int64_t count = n.value_or(x.shape().back());
  check<ShapeError>(count > 0, "linalg.vander: N must be positive, got {}", count);
  const Tensor same = expand(unsqueeze(x, -1), with(x.shape(), {count}));
  return cumprod(same, ScanParams{.axis = -1, .exclusive = true});
}

Tensor diagonal(const Tensor& a, int64_t offset, int64_t axis1, int64_t axis2) {
  return mica::diagonal(a, {.offset = offset,
                            .axis1 = normalize_axis(axis1, a.rank(), "linalg.diagonal"),
                            .axis2 = normalize_axis(axis2, a.rank(), "linalg.diagonal")});
}

Tensor matmul(const Tensor& a, const Tensor& b) { return mica::matmul(a, b); }

Tensor matrix_power(const Tensor& a, int64_t n) {
  check_square("linalg.matrix_power", a.spec());
  if (n == 0) {
    const Tensor one = eye_like(a, columns_of(a.shape()));
    return mul(expand_batch(one, batch_of(a.shape())), 1);  // a tensor of its own
  }
  Tensor square = n < 0 ? inv(a) : a;
  Tensor result;
  for (uint64_t rest = n < 0 ? 0 - static_cast<uint64_t>(n) : static_cast<uint64_t>(n); rest > 0;
       rest >>= 1) {
    if (rest & 1) result = result.defined() ? mica::matmul(result, square) : square;
    if (rest > 1) square = mica::matmul(square, square);
  }
  return n == 1 ? mul(result, 1) : result;
}

Tensor tensorinv(const Tensor& a, int64_t ind) {
  check<ShapeError>(ind > 0 && ind < a.rank(), "linalg.tensorinv: ind must be in [1, {}), got {}",
                    a.rank(), ind);
  Shape first;
  Shape last;
  for (int i = 0; i < a.rank(); ++i) (i < ind ? first : last).push_back(a.shape()[i]);
  check<ShapeError>(numel(first) == numel(last),
                    "linalg.tensorinv: the first {} axes of {} must hold as many as the others",
                    ind, a.shape());
  Shape shape = last;
  for (const int64_t n : first) shape.push_back(n);
  return reshape(inv(reshape(a, {numel(first), numel(last)})), shape);
}

Tensor tensorsolve(const Tensor& a, const Tensor& b, const Dims& axes) {
  Dims order;
  Dims moved;
  for (const int64_t axis : axes)
    moved.push_back(normalize_axis(axis, a.rank(), "linalg.tensorsolve"));
  for (int i = 0; i < a.rank(); ++i)
    if (!moved.contains(i)) order.push_back(i);
  for (const int64_t axis : moved) order.push_back(axis);
  const Tensor turned = permute(a, order);
  Shape shape;
  for (int i = b.rank(); i < turned.rank(); ++i) shape.push_back(turned.shape()[i]);
  check<ShapeError>(b.numel() == numel(shape) && turned.numel() == b.numel() * b.numel(),
                    "linalg.tensorsolve: A {} must hold the square of B's {} elements", a.shape(),
                    b.shape());
  const int64_t n = b.numel();
  return reshape(solve(reshape(turned, {n, n}), reshape(b, {n})), shape);
}

}  // namespace linalg

Functions linalg_products_functions() {
  const auto function = [](const char* name, const char* doc, std::vector<Signature> signatures,
                           const char* op = nullptr) -> Function {
    return {.name = name,
            .doc = doc,
            .signatures = std::move(signatures),
            .offer = kModule,
            .precision = Precision::low,
            .op = op};
  };
  return {
      function("linalg.multi_dot",
               "The product of matrices in the order that takes the fewest multiplications; the "
               "first and the last may be vectors.",
               {{linalg::multi_dot, {"tensors"}}}),
      {.name = "linalg.cross",
       .doc = "The cross products along an axis of 3; the other axes broadcast.",
       .signatures = {{linalg::cross, {"input", "other", kKeywordOnly, {"dim", -1}}}},
       .offer = kModule},
      {.name = "linalg.vecdot",
       .doc = "The sums of products of two tensors along an axis; they broadcast. Of complex "
              "numbers the "
              "first are conjugated.",
       .signatures = {{linalg::vecdot, {"x", "y", kKeywordOnly, {"dim", -1}}}},
       .offer = kModule},
      {.name = "linalg.vander",
       .doc = "Powers 0 … N-1 of x (…, n) in a last axis; N is n unless given.",
       .signatures = {{linalg::vander, {"x", kKeywordOnly, {"N", kNone}}}},
       .offer = kModule},
      {.name = "linalg.diagonal",
       .doc = "A diagonal of two axes, the last ones unless named, as a last axis in their place; "
              "it shares A's memory.",
       .signatures = {{linalg::diagonal,
                       {"A", kKeywordOnly, {"offset", 0}, {"dim1", -2}, {"dim2", -1}}}},
       .offer = kModule,
       .op = "diagonal"},
      function("linalg.matmul", "The matrix product; see mica.matmul.",
               {{linalg::matmul, {"input", "other"}}}, "matmul"),
      function("linalg.tensorsolve",
               "X with tensordot(A, X, X.ndim) = B; the axes dims of A are moved to its end first.",
               {{linalg::tensorsolve, {"A", "B", {"dims", kNone}}}}),
      function("linalg.tensorinv", "The inverse of A for tensordot over its first ind axes.",
               {{linalg::tensorinv, {"A", {"ind", 2}}}}),
  };
}

}  // namespace mica
