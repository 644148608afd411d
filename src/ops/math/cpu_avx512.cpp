// The functions of wide_ops.h, compiled for AVX-512. Nothing may be
// included here but what avx512.h and the functors need: inline code of others must not be compiled
// for it.
#include "mica/ops/elementwise/avx512.h"
#include "mica/ops/math/functors.h"

namespace mica::elementwise {

#define MICA_WIDE_OP(name, functor) MICA_AVX512(functor, 1)
#include "mica/ops/math/wide_ops.h"

}  // namespace mica::elementwise
