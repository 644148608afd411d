// The functions of exponential.cpp and trigonometric.cpp, compiled for AVX-512. Nothing may be
// included here but what avx512.h and the functors need: inline code of others must not be compiled
// for it.
#include "mica/ops/elementwise/avx512.h"
#include "mica/ops/math/functors.h"

namespace mica::elementwise {

MICA_AVX512(Exp, 1)
MICA_AVX512(Exp2, 1)
MICA_AVX512(Expm1, 1)
MICA_AVX512(Log, 1)
MICA_AVX512(Log2, 1)
MICA_AVX512(Log10, 1)
MICA_AVX512(Log1p, 1)
MICA_AVX512(Sqrt, 1)
MICA_AVX512(Rsqrt, 1)
MICA_AVX512(Reciprocal, 1)
MICA_AVX512(Erf, 1)
MICA_AVX512(Sigmoid, 1)
MICA_AVX512(Sin, 1)
MICA_AVX512(Cos, 1)
MICA_AVX512(Tan, 1)
MICA_AVX512(Asin, 1)
MICA_AVX512(Acos, 1)
MICA_AVX512(Atan, 1)
MICA_AVX512(Sinh, 1)
MICA_AVX512(Cosh, 1)
MICA_AVX512(Tanh, 1)
MICA_AVX512(Asinh, 1)
MICA_AVX512(Acosh, 1)
MICA_AVX512(Atanh, 1)

}  // namespace mica::elementwise
