#pragma once

#include "mica/op/kernel.h"

namespace mica {

/// Multiplications and additions of `results` sums over a window of the weight (O, …) each.
inline double window_flops(int64_t results, const TensorSpec& weight) {
  if (weight.numel() == 0) return 0;
  const int64_t window = weight.numel() / weight.shape[0];
  return 2.0 * static_cast<double>(results) * static_cast<double>(window);
}

// As properties of the ops, of any number of axes. A gradient has the products of the convolution.
template <class P>
double conv_flops(const P&, const Specs& s) {
  return window_flops(s.out[0].numel(), s.in[1]);
}
template <class P>
double conv_dgrad_flops(const P&, const Specs& s) {
  return window_flops(s.in[0].numel(), s.in[1]);
}
template <class P>
double conv_wgrad_flops(const P&, const Specs& s) {
  return window_flops(s.in[0].numel(), s.out[0]);
}

}  // namespace mica
