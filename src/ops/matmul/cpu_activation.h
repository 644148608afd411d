#pragma once

#include "mica/ops/activation/functors.h"
#include "mica/ops/elementwise/cpu.h"
#include "mica/ops/elementwise/functors.h"
#include "mica/ops/matmul/matmul.h"

namespace mica {

/// Whether `activate` knows an activation.
inline bool can_activate(Activation activation) {
  return activation == Activation::none || activation == Activation::relu ||
         activation == Activation::gelu;
}

/// Applies an activation to n values where they lie; float and double.
template <class C>
void activate(Activation activation, C* x, int64_t n) {
  const C* const in[1] = {x};
  if (activation == Activation::relu) elementwise::apply_vectors<1>(functor::Relu{}, in, n, x);
  if (activation == Activation::gelu) elementwise::apply_vectors<1>(functor::Gelu{}, in, n, x);
}

}  // namespace mica
