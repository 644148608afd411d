#pragma once

#include "mica/ops/view/view.h"

namespace mica {

/// f(x), which takes tensors of `rank` axes. One that lacks the first of them, a batch of images or
/// the axis that is worked along, is taken as if that were there with a size of 1, as PyTorch does;
/// the result does not have it.
template <class F>
auto with_leading_axis(const Tensor& x, int rank, const F& f) {
  if (x.rank() + 1 != rank) return f(x);
  auto y = f(unsqueeze(x, 0));
  if constexpr (requires { y.indices; }) {
    y.values = squeeze(y.values, {0});
    y.indices = squeeze(y.indices, {0});
  } else {
    y = squeeze(y, {0});
  }
  return y;
}

}  // namespace mica
