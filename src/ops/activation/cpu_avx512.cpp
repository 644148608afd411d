// The activations and their gradients, compiled for AVX-512. Nothing may be included here but what
// avx512.h and the functors need: inline code of others must not be compiled for it.
#include "mica/ops/activation/functors.h"
#include "mica/ops/elementwise/avx512.h"

namespace mica::elementwise {

MICA_AVX512(LeakyRelu, 1)
MICA_AVX512(LeakyReluGrad, 2)
MICA_AVX512(Elu, 1)
MICA_AVX512(EluGrad, 2)
MICA_AVX512(Selu, 1)
MICA_AVX512(SeluGrad, 2)
MICA_AVX512(Gelu, 1)
MICA_AVX512(GeluGrad, 2)
MICA_AVX512(GeluTanh, 1)
MICA_AVX512(GeluTanhGrad, 2)
MICA_AVX512(Silu, 1)
MICA_AVX512(SiluGrad, 2)
MICA_AVX512(Softplus, 1)
MICA_AVX512(SoftplusGrad, 2)
MICA_AVX512(Hardsigmoid, 1)
MICA_AVX512(HardsigmoidGrad, 2)
MICA_AVX512(Mish, 1)
MICA_AVX512(MishGrad, 2)

}  // namespace mica::elementwise
