// Reductions and scans.
#include "mica/ops/reduce/reduce.h"

#include "mica/onnx/broadcast.h"
#include "mica/onnx/call.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/flip/flip.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/scan/scan.h"

namespace mica::onnx {
namespace {

using Reduction = Tensor (*)(const Tensor& x, const Dims& axes, bool keepdim);

/// Axes came as an attribute, and later as an input: of ReduceSum with version 13, of the others
/// with 18. None means all, or none at all where `noop_with_empty_axes` says so.
Results reduced(const Call& c, Reduction f, bool noop_is_identity = true) {
  const Tensor x = c[0];
  std::vector<int64_t> axes = c.has(1) ? c.ints(1) : c.ints("axes");
  const bool keep = c.integer("keepdims", 1) != 0;
  Dims positive = axes_of(c, axes, x.rank());
  if (axes.empty()) {
    if (c.integer("noop_with_empty_axes", 0) != 0) {
      if (noop_is_identity) return x;
      return cast(reshape(f(unsqueeze(x, 0), {0}, false), x.shape()), x.dtype());
    }
    for (int i = 0; i < x.rank(); ++i) positive.push_back(i);
  }
  if (positive.empty()) return cast(reshape(f(unsqueeze(x, 0), {0}, false), x.shape()), x.dtype());
  return cast(f(x, positive, keep), x.dtype());
}

Tensor mean_of(const Tensor& x, const Dims& axes, bool keep) {
  if (is_floating(x.dtype())) return mean(x, axes, keep);
  return mean(cast(x, DType::f64), axes, keep);
}
Tensor l1(const Tensor& x, const Dims& axes, bool keep) { return sum(abs(x), axes, keep); }
Tensor sum_square(const Tensor& x, const Dims& axes, bool keep) {
  return sum(square(x), axes, keep);
}
Tensor l2(const Tensor& x, const Dims& axes, bool keep) {
  if (is_floating(x.dtype())) return sqrt(sum_square(x, axes, keep));
  return sqrt(sum_square(cast(x, DType::f64), axes, keep));
}
Tensor log_sum(const Tensor& x, const Dims& axes, bool keep) { return log(sum(x, axes, keep)); }
Tensor log_sum_exp(const Tensor& x, const Dims& axes, bool keep) {
  return logsumexp(is_floating(x.dtype()) ? x : cast(x, DType::f64), axes, keep);
}

/// The smallest or largest number of a dtype, which is what nothing reduces to.
Tensor extreme_of_nothing(const Tensor& x, const Dims& axes, bool keep, bool largest) {
  const Tensor zeros = sum(x, axes, keep);  // for the shape
  Number value =
      largest ? std::numeric_limits<double>::infinity() : -std::numeric_limits<double>::infinity();
  if (x.dtype() == DType::boolean) {
    value = largest;
  } else if (!is_floating(x.dtype())) {
    const IntegerLimits limits = integer_limits(x.dtype());
    value = largest ? Number(limits.largest) : Number(limits.lowest);
  }
  return full(zeros.shape(), value, {x.dtype(), x.device()});
}
Tensor largest(const Tensor& x, const Dims& axes, bool keep) {
  if (x.numel() == 0) return extreme_of_nothing(x, axes, keep, false);
  if (x.dtype() == DType::boolean) return any(x, axes, keep);
  return max(x, axes, keep);
}
Tensor smallest(const Tensor& x, const Dims& axes, bool keep) {
  if (x.numel() == 0) return extreme_of_nothing(x, axes, keep, true);
  if (x.dtype() == DType::boolean) return all(x, axes, keep);
  return min(x, axes, keep);
}

/// The first of equals, or the last.
Results arg(const Call& c, Tensor (*f)(const Tensor&, int64_t, bool)) {
  const Tensor x = c[0];
  const int64_t axis = axis_of(c, c.integer("axis", 0), x.rank());
  const bool keep = c.integer("keepdims", 1) != 0;
  if (c.integer("select_last_index", 0) == 0) return f(x, axis, keep);
  return sub(Number(x.shape()[static_cast<int>(axis)] - 1), f(flip(x, {axis}), axis, keep));
}

Results scanned(const Call& c, Tensor (*f)(const Tensor&, const ScanParams&)) {
  const Tensor x = c[0];
  const ScanParams params{.axis = axis_of(c, c.integer(1), x.rank()),
                          .exclusive = c.integer("exclusive", 0) != 0,
                          .reverse = c.integer("reverse", 0) != 0};
  return cast(f(x, params), x.dtype());
}

}  // namespace

Operators reduction_operators() {
  return {
      {"ReduceSum", [](const Call& c) { return reduced(c, sum); }},
      {"ReduceMean", [](const Call& c) { return reduced(c, mean_of); }},
      {"ReduceProd", [](const Call& c) { return reduced(c, prod); }},
      {"ReduceMax", [](const Call& c) { return reduced(c, largest); }},
      {"ReduceMin", [](const Call& c) { return reduced(c, smallest); }},
      {"ReduceL1", [](const Call& c) { return reduced(c, l1, false); }},
      {"ReduceL2", [](const Call& c) { return reduced(c, l2, false); }},
      {"ReduceSumSquare", [](const Call& c) { return reduced(c, sum_square, false); }},
      {"ReduceLogSum", [](const Call& c) { return reduced(c, log_sum, false); }},
      {"ReduceLogSumExp", [](const Call& c) { return reduced(c, log_sum_exp, false); }},
      {"ArgMax", [](const Call& c) { return arg(c, argmax); }},
      {"ArgMin", [](const Call& c) { return arg(c, argmin); }},
      {"CumSum", [](const Call& c) { return scanned(c, cumsum); }},
      {"CumProd", [](const Call& c) { return scanned(c, cumprod); }},
  };
}

}  // namespace mica::onnx
