#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

namespace mica {

struct DimsParams {
  Dims dims;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("dims", self.dims);
  }
};

struct SliceParams {
  int64_t axis = 0;
  int64_t start = 0;
  int64_t stop = 0;
  int64_t step = 1;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("axis", self.axis);
    f("start", self.start);
    f("stop", self.stop);
    f("step", self.step);
  }
};

/// Parameters of a slice's gradient: the slice and the shape it was taken from.
struct SliceGradParams {
  SliceParams slice;
  Shape shape;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    SliceParams::fields(self.slice, f);
    f("shape", self.shape);
  }
};

struct DiagonalParams {
  int64_t offset = 0;  ///< 0 is the main diagonal, above it is positive
  int64_t axis1 = 0;
  int64_t axis2 = 1;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("offset", self.offset);
    f("axis1", self.axis1);
    f("axis2", self.axis2);
  }
};

/// Parameters of a diagonal's gradient: the diagonal and the shape it was taken from.
struct DiagonalGradParams {
  DiagonalParams diagonal;
  Shape shape;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    DiagonalParams::fields(self.diagonal, f);
    f("shape", self.shape);
  }
};

// Everything here shares x's memory, but for `reshape` and `flatten` where strides do not allow it
// and slices with negative steps: those copy. Axes may be negative: they count from the end.

/// The same elements in another shape; one size may be -1.
Tensor reshape(const Tensor& x, const Shape& shape);
/// Flattens the axes from `start` to `end`, both included, into one.
Tensor flatten(const Tensor& x, int64_t start = 0, int64_t end = -1);
/// Without those of `axes` that have size 1; of all axes when none is named.
Tensor squeeze(const Tensor& x, const Dims& axes = {});
/// With a new axis of size 1 that becomes axis `axis` of the result.
Tensor unsqueeze(const Tensor& x, int64_t axis);

/// Axis i of the result is axis axes[i] of x.
Tensor permute(const Tensor& x, const Dims& axes);
Tensor transpose(const Tensor& x, int64_t a, int64_t b);
/// The same as transpose.
Tensor swapaxes(const Tensor& x, int64_t a, int64_t b);
/// Axis from[i] of x becomes axis to[i] of the result; the others keep their order.
Tensor movedim(const Tensor& x, const Dims& from, const Dims& to);

/// Repeats sizes of 1 without copying; a size of -1 stays as it is.
Tensor expand(const Tensor& x, const Shape& shape);

/// x[start:stop:step] along an axis, as Python has it: indices past the ends are cut, and a
/// negative step goes backwards (with a `stop` below -n through the first element).
Tensor slice(const Tensor& x, int64_t axis, int64_t start, int64_t stop, int64_t step = 1);
/// `length` elements of an axis from `start` on, all of which must exist.
Tensor narrow(const Tensor& x, int64_t axis, int64_t start, int64_t length);
/// x at one index of an axis, which is dropped.
Tensor select(const Tensor& x, int64_t axis, int64_t index);
/// The diagonal of two axes, as a last axis in their place.
Tensor diagonal(const Tensor& x, const DiagonalParams& params = {});

/// Zeros of a shape with dy where the slice of it would be.
Tensor slice_grad(const Tensor& dy, const SliceGradParams& params);
/// Zeros of a shape with dy on a diagonal.
Tensor diagonal_grad(const Tensor& dy, const DiagonalGradParams& params);

}  // namespace mica
