// The functions of one number that cost more than memory does: an op, its functor, and with them
// its kernels by AVX-512 vectors and on CUDA. Who includes this file defines MICA_WIDE_OP, and
// where it matters to it MICA_WIDE_OP_COMPLEX for those that have a functor of complex numbers too.
#ifndef MICA_WIDE_OP_COMPLEX
#define MICA_WIDE_OP_COMPLEX(name, type) MICA_WIDE_OP(name, type)
#endif
MICA_WIDE_OP_COMPLEX(exp, Exp)
MICA_WIDE_OP(exp2, Exp2)
MICA_WIDE_OP_COMPLEX(expm1, Expm1)
MICA_WIDE_OP_COMPLEX(log, Log)
MICA_WIDE_OP(log2, Log2)
MICA_WIDE_OP_COMPLEX(log10, Log10)
MICA_WIDE_OP_COMPLEX(log1p, Log1p)
MICA_WIDE_OP_COMPLEX(sqrt, Sqrt)
MICA_WIDE_OP_COMPLEX(sin, Sin)
MICA_WIDE_OP_COMPLEX(cos, Cos)
MICA_WIDE_OP_COMPLEX(tan, Tan)
MICA_WIDE_OP_COMPLEX(asin, Asin)
MICA_WIDE_OP_COMPLEX(acos, Acos)
MICA_WIDE_OP_COMPLEX(atan, Atan)
MICA_WIDE_OP_COMPLEX(sinh, Sinh)
MICA_WIDE_OP_COMPLEX(cosh, Cosh)
MICA_WIDE_OP_COMPLEX(asinh, Asinh)
MICA_WIDE_OP_COMPLEX(acosh, Acosh)
MICA_WIDE_OP_COMPLEX(atanh, Atanh)
MICA_WIDE_OP(erf, Erf)
MICA_WIDE_OP(erfc, Erfc)
MICA_WIDE_OP_COMPLEX(tanh, Tanh)
MICA_WIDE_OP(sigmoid, Sigmoid)
MICA_WIDE_OP(rsqrt, Rsqrt)
MICA_WIDE_OP_COMPLEX(reciprocal, Reciprocal)
#undef MICA_WIDE_OP
#undef MICA_WIDE_OP_COMPLEX
