#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

namespace mica {

struct FlipParams {
  Dims axes;  ///< in [0, rank)

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("axes", self.axes);
  }
};

struct RollParams {
  Dims shifts;  ///< one for each axis of the input

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("shifts", self.shifts);
  }
};

/// The elements of each of `axes` in opposite order; a copy.
Tensor flip(const Tensor& x, const Dims& axes);
/// The elements of axes[i] moved on by shifts[i], what leaves at an end coming back at the other.
/// Without axes the one shift is of the flattened tensor.
Tensor roll(const Tensor& x, const Dims& shifts, const Dims& axes = {});

}  // namespace mica
