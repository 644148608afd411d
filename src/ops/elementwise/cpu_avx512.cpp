// The functions of two numbers that compute much, compiled for AVX-512. Nothing may be included
// here but what avx512.h and the functors need: inline code of others must not be compiled for it.
#include "mica/ops/elementwise/avx512.h"
#include "mica/ops/elementwise/functors.h"

namespace mica::elementwise {

MICA_AVX512(Pow, 2)
MICA_AVX512(Atan2, 2)

}  // namespace mica::elementwise
