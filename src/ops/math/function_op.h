#pragma once

#include "mica/ops/complex/cpu.h"
#include "mica/ops/elementwise/calls.h"
#include "mica/ops/elementwise/cpu.h"

namespace mica::elementwise {

/// A function of floats with `Tensor gradient(const VjpArgs&)`; of complex numbers too, where a
/// functor C computes them.
template <class F, auto gradient, class C = void>
OpDef function(const char* name, Op<NoParams>::Saves saves, Precision precision = Precision::any) {
  Op<NoParams> op = wide_elementwise_op<F>(name);
  op.template vjp<only<gradient>>(saves).precision(precision);
  if constexpr (!std::is_void_v<C>) op.complex(complex_kernel<C>());
  return op.build();
}

}  // namespace mica::elementwise
