#include "mica/ops/compare/close.h"

#include "mica/core/check.h"
#include "mica/op/function.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/reduce/reduce.h"

namespace mica {
namespace {

/// Differences of integers would wrap.
Tensor in_floats(const Tensor& x) {
  return is_differentiable(x.dtype()) ? x.detach() : cast(x, DType::f64);
}

}  // namespace

Tensor isclose(const Tensor& a, const Tensor& b, const CloseOptions& options) {
  check(options.rtol >= 0 && options.atol >= 0,
        "isclose: rtol and atol must be at least 0, got {} and {}", options.rtol, options.atol);
  const Tensor x = in_floats(a);
  const Tensor y = in_floats(b);
  const Tensor difference = abs(sub(x, y));
  const Tensor within = le(difference, add(mul(abs(y), options.rtol), options.atol));
  const Tensor close = logical_or(eq(a, b), logical_and(isfinite(difference), within));
  return options.equal_nan ? logical_or(close, logical_and(isnan(x), isnan(y))) : close;
}

bool allclose(const Tensor& a, const Tensor& b, const CloseOptions& options) {
  return all(isclose(a, b, options)).item() != 0;
}

bool equal(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && all(eq(a, b)).item() != 0;
}

Functions close_functions() {
  using Params = std::initializer_list<Parameter>;
  const Params parameters = {
      "input", "other", {"rtol", 1e-5}, {"atol", 1e-8}, {"equal_nan", false}};
  return {
      {.name = "isclose",
       .doc = "Whether |input - other| <= atol + rtol * |other|, as bool; shapes broadcast. "
              "Infinities are close to themselves, NaN is close to NaN with equal_nan.",
       .signatures = {{[](const Tensor& x, const Tensor& y, double rtol, double atol,
                          bool equal_nan) {
                         return isclose(x, y, {.rtol = rtol, .atol = atol, .equal_nan = equal_nan});
                       },
                       parameters}}},
      {.name = "allclose",
       .doc = "Whether all elements of input and other are close, as isclose has it: a bool.",
       .signatures = {{[](const Tensor& x, const Tensor& y, double rtol, double atol,
                          bool equal_nan) {
                         return allclose(x, y,
                                         {.rtol = rtol, .atol = atol, .equal_nan = equal_nan});
                       },
                       parameters}}},
      {.name = "equal",
       .doc =
           "Whether input and other have one shape and equal elements: a bool. NaN equals nothing.",
       .signatures = {{mica::equal, {"input", "other"}}}}};
}

}  // namespace mica
