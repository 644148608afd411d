#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

// Order. NaN is greater than every number, and equal to itself; zeros of both signs are equal.
namespace mica {

struct SortParams {
  int64_t axis = -1;
  bool descending = false;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("axis", self.axis);
    f("descending", self.descending);
  }
};

/// Values in order, and where along the axis each came from (i64).
struct Sorted {
  Tensor values;
  Tensor indices;
};

/// Sorts along an axis; equal values stay in the order they had.
Sorted sort(const Tensor& x, int64_t axis = -1, bool descending = false);
/// The indices of `sort`.
Tensor argsort(const Tensor& x, int64_t axis = -1, bool descending = false);

struct TopkParams {
  int64_t k = 1;
  int64_t axis = -1;
  bool largest = true;
  bool sorted = true;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("k", self.k);
    f("axis", self.axis);
    f("largest", self.largest);
    f("sorted", self.sorted);
  }
};

/// The k largest (or smallest) values along an axis, best first; of equal ones the first. Without
/// `sorted` their order is not defined.
Sorted topk(const Tensor& x, int64_t k, int64_t axis = -1, bool largest = true, bool sorted = true);

struct Unique {
  Tensor values;   ///< each value once, in order; 1-d. Every NaN is a value of its own
  Tensor inverse;  ///< for each element of x where its value is in `values`; i64, x's shape
  Tensor counts;   ///< how often each value occurs; i64
};

/// The distinct values of all of x.
Unique unique(const Tensor& x);

struct SearchsortedParams {
  bool right = false;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("right", self.right);
  }
};

/// Where each of `values` would go in `sorted`, which ascends along its last axis, so that it stays
/// sorted: before equal elements, or behind them if `right`; i64, the shape of values. `sorted` is
/// 1-d, or its sizes before the last are those of values.
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false);

}  // namespace mica
