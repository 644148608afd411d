#pragma once

#include "mica/core/tensor.h"

// Complex numbers and their parts. Gradients are PyTorch's: that of a real loss L by z = a + bi is
// dL/da + i dL/db, the direction in which L grows.
namespace mica {

/// a + bi of two real tensors, which broadcast; f64 makes c128, the rest c64.
Tensor complex(const Tensor& real, const Tensor& imag);
/// size * (cos(angle) + i sin(angle)).
Tensor polar(const Tensor& size, const Tensor& angle);

/// The parts, in memory of their own; of real tensors themselves and zeros.
Tensor real(const Tensor& x);
Tensor imag(const Tensor& x);
/// Real tensors are given back.
Tensor conj(const Tensor& x);
/// In (-pi, pi]; of a real number 0 or pi.
Tensor angle(const Tensor& x);
/// |x| of a complex tensor, without overflow in between; `abs` calls it.
Tensor complex_abs(const Tensor& x);
/// The conjugate of the last two axes exchanged.
Tensor adjoint(const Tensor& x);
Tensor isreal(const Tensor& x);

/// (…) complex as (…, 2) real and back, the values copied.
Tensor view_as_real(const Tensor& x);
Tensor view_as_complex(const Tensor& x);

/// Calls f with both parts of a complex tensor and puts its results together.
template <class F>
Tensor by_parts(const Tensor& x, F&& f) {
  return complex(f(real(x)), f(imag(x)));
}
/// The same with both parts in one tensor, along a last axis that f leaves alone.
template <class F>
Tensor as_pairs(const Tensor& x, F&& f) {
  if (x.rank() == Dims::kMaxRank) return by_parts(x, f);
  return view_as_complex(f(view_as_real(x)));
}

}  // namespace mica
