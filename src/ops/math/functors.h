#pragma once

#include "mica/ops/elementwise/math.h"

namespace mica::functor {

using namespace math;

struct Exp {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return exp(x);
  }
};
struct Exp2 {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return exp2(x);
  }
};
struct Expm1 {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return expm1(x);
  }
};
struct Log {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return log(x);
  }
};
struct Log2 {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return log2(x);
  }
};
struct Log10 {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return log10(x);
  }
};
struct Log1p {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return log1p(x);
  }
};
struct Sqrt {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return sqrt(x);
  }
};
struct Sin {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return sin(x);
  }
};
struct Cos {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return cos(x);
  }
};
struct Tan {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return tan(x);
  }
};
struct Asin {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return asin(x);
  }
};
struct Acos {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return acos(x);
  }
};
struct Atan {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return atan(x);
  }
};
struct Sinh {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return sinh(x);
  }
};
struct Cosh {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return cosh(x);
  }
};
struct Asinh {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return asinh(x);
  }
};
struct Acosh {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return acosh(x);
  }
};
struct Atanh {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return atanh(x);
  }
};
struct Erf {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return erf(x);
  }
};
struct Tanh {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return tanh(x);
  }
};
struct TanhGrad {
  template <class T>
  MICA_PORTABLE T operator()(T dy, T y) const {
    return dy * (T(1) - y * y);
  }
};
struct Sigmoid {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return T(1) / (T(1) + exp(-x));
  }
};
struct SigmoidGrad {
  template <class T>
  MICA_PORTABLE T operator()(T dy, T y) const {
    return dy * (y * (T(1) - y));
  }
};
struct Rsqrt {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return T(1) / sqrt(x);
  }
};
struct Reciprocal {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return T(1) / x;
  }
};
struct Square {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    if constexpr (kIsInteger<T>) return wrapped<T>(1ULL * x * x);
    return x * x;
  }
};
struct Abs {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return abs(x);
  }
};
struct Sign {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return select(x > T(0), T(1), select(x < T(0), T(-1), x));  // keeps NaN
  }
};
struct Floor {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return floor(x);
  }
};
struct Ceil {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return ceil(x);
  }
};
struct Trunc {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return trunc(x);
  }
};
struct Round {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return round_even(x);
  }
};

}  // namespace mica::functor
