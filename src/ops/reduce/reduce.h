#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

// Reductions over a set of axes, all of them when none is named; axes may be negative. With
// `keepdim` the reduced axes stay, with a size of 1.
namespace mica {

struct ReduceParams {
  Dims axes;  ///< sorted, in [0, rank)
  bool keepdim = false;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("axes", self.axes);
    f("keepdim", self.keepdim);
  }
};

/// Sums and products of bool, u8 and i32 are i64; of nothing they are 0 and 1.
Tensor sum(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
Tensor prod(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
Tensor mean(const Tensor& x, const Dims& axes = {}, bool keepdim = false);

/// Sums x down to `shape`, from which it was broadcast.
Tensor sum_to(const Tensor& x, const Shape& shape);

/// Largest and smallest values, in x's dtype. NaN wins. Equal values share the gradient evenly.
Tensor max(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
Tensor min(const Tensor& x, const Dims& axes = {}, bool keepdim = false);

/// Whether any or every element is not zero (NaN is not), and how many are: bool and i64.
Tensor any(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
Tensor all(const Tensor& x, const Dims& axes = {}, bool keepdim = false);
Tensor count_nonzero(const Tensor& x, const Dims& axes = {}, bool keepdim = false);

struct VarParams {
  Dims axes;  ///< sorted, in [0, rank)
  bool keepdim = false;
  double correction = 1;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("axes", self.axes);
    f("keepdim", self.keepdim);
    f("correction", self.correction);
  }
};

/// Squared deviations from the mean, summed and divided by n - correction; and the root of that.
/// The gradient of a standard deviation of 0 is 0.
Tensor var(const Tensor& x, const Dims& axes = {}, bool keepdim = false, double correction = 1);
Tensor std(const Tensor& x, const Dims& axes = {}, bool keepdim = false, double correction = 1);

struct NormParams {
  double p = 2;
  Dims axes;  ///< sorted, in [0, rank)
  bool keepdim = false;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("p", self.p);
    f("axes", self.axes);
    f("keepdim", self.keepdim);
  }
};

/// (sum of |x|^p)^(1/p); the number of nonzero elements for p = 0, the largest or smallest |x| for
/// p = ±infinity. The gradient where the norm is 0 is 0.
Tensor norm(const Tensor& x, double p = 2, const Dims& axes = {}, bool keepdim = false);

/// log(sum(exp(x))) without overflow; -infinity for nothing.
Tensor logsumexp(const Tensor& x, const Dims& axes = {}, bool keepdim = false);

struct ArgmaxParams {
  int64_t axis = -1;
  bool keepdim = false;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("axis", self.axis);
    f("keepdim", self.keepdim);
  }
};

/// Index (i64) of the largest or smallest value along an axis; the first of equals. NaN wins.
Tensor argmax(const Tensor& x, int64_t axis = -1, bool keepdim = false);
Tensor argmin(const Tensor& x, int64_t axis = -1, bool keepdim = false);

}  // namespace mica
