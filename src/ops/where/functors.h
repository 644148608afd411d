#pragma once

#include "mica/ops/elementwise/math.h"
#include "mica/ops/where/functor_params.h"

namespace mica {

template <class T>
MICA_PORTABLE T ClampParams::operator()(T x) const {
  using math::select;
  const T up = select(x < T(low), T(low), x);  // keeps NaN
  return select(up > T(high), T(high), up);
}

}  // namespace mica
