#pragma once

#include "mica/ops/fft/fft.h"

namespace mica {

// The ops: transforms of the last axis.
Tensor transform_line(const Tensor& x, const FftParams& params);
Tensor line_to_half(const Tensor& x, const RealFftParams& params);
Tensor half_to_line(const Tensor& x, const RealFftParams& params);

/// Of the last `axes` at once: complex numbers, or real ones to the half of the last axis.
struct BlockFftParams {
  int64_t axes = 2;
  bool inverse = false;
  double scale = 1;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("axes", self.axes);
    f("inverse", self.inverse);
    f("scale", self.scale);
  }
};
Tensor transform_block(const Tensor& x, const BlockFftParams& params);

/// The numbers of half a line of n, by how often each stands in the whole one: once at the ends,
/// else twice.
Tensor weighted_half(const Tensor& half, int64_t n, double twice);

}  // namespace mica
