#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

namespace mica {

struct ScanParams {
  int64_t axis = -1;
  bool exclusive = false;  ///< element i is left out of result i
  bool reverse = false;    ///< from the last element to the first

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("axis", self.axis);
    f("exclusive", self.exclusive);
    f("reverse", self.reverse);
  }
};

/// Sums and products of all elements up to each one along an axis. Those of integers and bool are
/// i64.
Tensor cumsum(const Tensor& x, const ScanParams& params);
Tensor cumprod(const Tensor& x, const ScanParams& params);
inline Tensor cumsum(const Tensor& x, int64_t axis) { return cumsum(x, ScanParams{.axis = axis}); }
inline Tensor cumprod(const Tensor& x, int64_t axis) {
  return cumprod(x, ScanParams{.axis = axis});
}

/// h(i) = a(i) h(i-1) + b(i) along an axis, from h = 0 before the first; a and b have one shape and
/// floating dtype. An exclusive scan gives h(i-1). Differentiating a cumprod takes one.
Tensor linear_scan(const Tensor& a, const Tensor& b, const ScanParams& params);

}  // namespace mica
