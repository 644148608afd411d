#include "mica/ops/view/rearrange.h"

#include <cstdlib>

#include "mica/core/check.h"
#include "mica/op/function.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"

namespace mica {

Tensor t(const Tensor& x) {
  check<ShapeError>(x.rank() <= 2, "t: expected at most two axes, got {}", x.shape());
  return x.rank() < 2 ? x : transpose(x, 0, 1);
}

Tensor unflatten(const Tensor& x, int64_t axis, const Shape& sizes) {
  const int at = normalize_axis(axis, x.rank(), "unflatten");
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != at) shape.push_back(x.size(i));
    if (i == at)
      for (const int64_t size : sizes) shape.push_back(size);
  }
  return reshape(x, shape);
}

Tensor diag(const Tensor& x, int64_t diagonal) {
  check<ShapeError>(x.rank() == 1 || x.rank() == 2, "diag: expected a vector or a matrix, got {}",
                    x.shape());
  const DiagonalParams params = {.offset = diagonal};
  if (x.rank() == 2) return clone(mica::diagonal(x, params));
  const int64_t n = x.size(0) + std::abs(diagonal);
  return diagonal_grad(x, {.diagonal = params, .shape = {n, n}});
}

Tensor trace(const Tensor& x) {
  check<ShapeError>(x.rank() == 2, "trace: expected a matrix, got {}", x.shape());
  return sum(diagonal(x));
}

Tensor atleast_1d(const Tensor& x) { return x.rank() == 0 ? reshape(x, {1}) : x; }

Tensor atleast_2d(const Tensor& x) { return x.rank() >= 2 ? x : unsqueeze(atleast_1d(x), 0); }

Tensor atleast_3d(const Tensor& x) { return x.rank() >= 3 ? x : unsqueeze(atleast_2d(x), -1); }

namespace {

/// Of one tensor, or of several, which give a tuple.
template <Tensor (*f)(const Tensor&)>
Tensors widen(const Tensors& tensors) {
  Tensors all;
  for (const Tensor& t : tensors) all.push_back(f(t));
  return all;
}
Function at_least(const char* name, Tensor (*one)(const Tensor&),
                  Tensors (*several)(const Tensors&), const char* doc) {
  return {.name = name,
          .doc = doc,
          .signatures = {{one, {"tensors"}}, {several, {spread("tensors")}}},
          .offer = kModule};
}

}  // namespace

Functions rearrange_functions() {
  return {
      unary("t", t, "A view of a matrix with its axes exchanged; what has fewer axes is itself."),
      unary("trace", trace, "The sum of a matrix's main diagonal, 0-d."),
      {.name = "unflatten",
       .doc = "A view with axis dim as several of these sizes, of which one may be -1.",
       .signatures = {{unflatten, {"input", "dim", "sizes"}}}},
      {.name = "diag",
       .doc = "A matrix of zeros with the vector input (n) on a diagonal, or a copy of that "
              "diagonal of a matrix. 0 is the main one, a positive one lies above it.",
       .signatures = {{diag, {"input", {"diagonal", 0}}}}},
      at_least("atleast_1d", atleast_1d, widen<atleast_1d>,
               "Each tensor with at least one axis: 0-d becomes (1). Several tensors, or a list, "
               "give a tuple."),
      at_least("atleast_2d", atleast_2d, widen<atleast_2d>,
               "Each tensor with at least two axes: (n) becomes (1, n). Several tensors, or a "
               "list, give a tuple."),
      at_least("atleast_3d", atleast_3d, widen<atleast_3d>,
               "Each tensor with at least three axes: (n) becomes (1, n, 1), and (m, n) becomes "
               "(m, n, 1). Several tensors, or a list, give a tuple."),
  };
}

}  // namespace mica
