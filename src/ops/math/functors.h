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
/// 1 - erf(x), with all its digits where that is small.
struct Erfc {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return select(x < T(0.5), T(1) - erf(x), tail(x));
  }
  /// For x of at least 0.5: exp(-x^2) / (1 + 2 x) times a polynomial in (x - 4) / (x + 4).
  template <class T>
  MICA_PORTABLE static T tail(T x) {
    constexpr double kTail[] = {
        -1.0208600570932139e-10, 3.578785272009893e-09,   -9.347150015015463e-09,
        -2.3757083900143229e-08, 1.0293058484573893e-07,  8.3132879647596438e-08,
        -8.193952094668847e-07,  2.8679113916737021e-07,  5.7065508106405075e-06,
        -1.1218420266513659e-05, -2.4398126926219842e-05, 0.00015062048007268285,
        -0.00019925693646602577, -0.00075777303318741202, 0.0050319700122300748,
        -0.016197734092007161,   0.037167515534540702,    -0.066330365809525227,
        0.093732834998490305,    -0.10103906603641383,    0.06809705425468951,
        0.01537965210262149,     -0.1396211168405625,     1.2329951186255526};
    const T y = select(x > T(28), T(28), x);  // where it is 0; NaN stays
    const T t = (y - T(4)) / (y + T(4));
    T p = T(kTail[0]);
    for (int i = 1; i < 24; ++i) p = p * t + T(kTail[i]);
    // y^2 = a^2 + (y - a)(y + a), where a has so few digits that its square is exact.
    const T a = floor(y * T(64)) / T(64);
    return exp(-a * a) * (exp((a - y) * (a + y)) * p / (T(1) + T(2) * y));
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
    if constexpr (kIsInteger<T>) {
      return is_negative(x) ? T(-1) : T(x > T(0));
    } else {
      return select(x > T(0), T(1), select(x < T(0), T(-1), x));  // keeps NaN
    }
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
