#pragma once

// Functions of complex numbers, one functor each.
#include <cmath>
#include <complex>

#include "mica/core/complex.h"
#if defined(__CUDACC__)
#include "mica/ops/complex/device_math.h"
#endif

namespace mica::complex_functor {

// std::complex on the host, device_math.h on a GPU.
#if defined(__CUDA_ARCH__)
#define MICA_COMPLEX_CALL(f, x) Complex<T>(complex_math::f(Complex<double>(x)))
#else
#define MICA_COMPLEX_CALL(f, x) std::f(static_cast<std::complex<T>>(x))
#endif
#define MICA_COMPLEX_FUNCTION(Name, f)                        \
  struct Name {                                               \
    template <class T>                                        \
    MICA_PORTABLE Complex<T> operator()(Complex<T> x) const { \
      return MICA_COMPLEX_CALL(f, x);                         \
    }                                                         \
  };
MICA_COMPLEX_FUNCTION(Exp, exp)
MICA_COMPLEX_FUNCTION(Log, log)
MICA_COMPLEX_FUNCTION(Log10, log10)
MICA_COMPLEX_FUNCTION(Sqrt, sqrt)
MICA_COMPLEX_FUNCTION(Sin, sin)
MICA_COMPLEX_FUNCTION(Cos, cos)
MICA_COMPLEX_FUNCTION(Tan, tan)
MICA_COMPLEX_FUNCTION(Asin, asin)
MICA_COMPLEX_FUNCTION(Acos, acos)
MICA_COMPLEX_FUNCTION(Atan, atan)
MICA_COMPLEX_FUNCTION(Sinh, sinh)
MICA_COMPLEX_FUNCTION(Cosh, cosh)
MICA_COMPLEX_FUNCTION(Tanh, tanh)
MICA_COMPLEX_FUNCTION(Asinh, asinh)
MICA_COMPLEX_FUNCTION(Acosh, acosh)
MICA_COMPLEX_FUNCTION(Atanh, atanh)
#undef MICA_COMPLEX_FUNCTION
#undef MICA_COMPLEX_CALL

struct Expm1 {
  template <class T>
  MICA_PORTABLE Complex<T> operator()(Complex<T> x) const {
    if (!(x.re * 0 == 0 && x.im * 0 == 0)) {  // exp knows what becomes of those
      const Complex<T> y = Exp()(x);
      return {y.re - 1, y.im};
    }
    const T half = std::sin(x.im / 2);
    return {std::expm1(x.re) * std::cos(x.im) - 2 * half * half + T(0),
            std::exp(x.re) * std::sin(x.im)};
  }
};

/// Exact where x is small; elsewhere 1 + x is as good as x.
struct Log1p {
  template <class T>
  MICA_PORTABLE Complex<T> operator()(Complex<T> x) const {
    if (std::abs(x.re) < T(0.5) && std::abs(x.im) < T(0.5))
      return {std::log1p(x.re * (2 + x.re) + x.im * x.im) / 2, std::atan2(x.im, 1 + x.re)};
    return Log()(Complex<T>(1 + x.re, x.im));
  }
};

struct Add {
  template <class T>
  MICA_PORTABLE Complex<T> operator()(Complex<T> a, Complex<T> b) const {
    return a + b;
  }
};
struct Sub {
  template <class T>
  MICA_PORTABLE Complex<T> operator()(Complex<T> a, Complex<T> b) const {
    return a - b;
  }
};
struct Mul {
  template <class T>
  MICA_PORTABLE Complex<T> operator()(Complex<T> a, Complex<T> b) const {
    return a * b;
  }
};
/// Floats by way of doubles, whose squares do not overflow; doubles scaled by the larger part of
/// the divisor.
struct Div {
  MICA_PORTABLE Complex<float> operator()(Complex<float> a, Complex<float> b) const {
    const Complex<double> x(a);
    const Complex<double> y(b);
    const double square = y.re * y.re + y.im * y.im;
    return {static_cast<float>((x.re * y.re + x.im * y.im) / square),
            static_cast<float>((x.im * y.re - x.re * y.im) / square)};
  }
  MICA_PORTABLE Complex<double> operator()(Complex<double> a, Complex<double> b) const {
    if (std::abs(b.re) >= std::abs(b.im)) {
      if (b.re == 0 && b.im == 0) return {a.re / std::abs(b.re), a.im / std::abs(b.re)};
      const double ratio = b.im / b.re;
      const double scale = 1 / (b.re + b.im * ratio);
      return {(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
    }
    const double ratio = b.re / b.im;
    const double scale = 1 / (b.im + b.re * ratio);
    return {(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
  }
};
struct Reciprocal {
  template <class T>
  MICA_PORTABLE Complex<T> operator()(Complex<T> x) const {
    return Div()(Complex<T>(1), x);
  }
};
struct Neg {
  template <class T>
  MICA_PORTABLE Complex<T> operator()(Complex<T> x) const {
    return -x;
  }
};
struct Square {
  template <class T>
  MICA_PORTABLE Complex<T> operator()(Complex<T> x) const {
    return x * x;
  }
};
struct Conj {
  template <class T>
  MICA_PORTABLE Complex<T> operator()(Complex<T> x) const {
    return conj(x);
  }
};

/// Small whole powers are products; the rest is exp(b log(a)), in double.
struct Pow {
  template <class T>
  MICA_PORTABLE Complex<T> operator()(Complex<T> a, Complex<T> b) const {
    constexpr double kMostProducts = 64;
    if (b == Complex<T>(0)) return 1;
    if (a == Complex<T>(0) && b.im == 0 && b.re > 0) return 0;
    const Complex<double> base(a);
    const double n = b.re;
    if (b.im == 0 && n == std::floor(n) && std::abs(n) <= kMostProducts) {
      Complex<double> power = 1;
      Complex<double> square = base;
      for (int k = static_cast<int>(std::abs(n)); k > 0; k /= 2, square = square * square)
        if (k % 2 == 1) power = power * square;
      return Complex<T>(n < 0 ? Reciprocal()(power) : power);
    }
    return Complex<T>(Exp()(Complex<double>(b) * Log()(base)));
  }
};

struct Eq {
  template <class T>
  MICA_PORTABLE bool operator()(Complex<T> a, Complex<T> b) const {
    return a == b;
  }
};
struct Ne {
  template <class T>
  MICA_PORTABLE bool operator()(Complex<T> a, Complex<T> b) const {
    return !(a == b);
  }
};

struct Real {
  template <class T>
  MICA_PORTABLE T operator()(Complex<T> x) const {
    return x.re;
  }
};
struct Imag {
  template <class T>
  MICA_PORTABLE T operator()(Complex<T> x) const {
    return x.im;
  }
};
struct Abs {
  template <class T>
  MICA_PORTABLE T operator()(Complex<T> x) const {
    return std::hypot(x.re, x.im);
  }
};
struct Angle {
  template <class T>
  MICA_PORTABLE T operator()(Complex<T> x) const {
    return std::atan2(x.im, x.re);
  }
};
struct Make {
  template <class T>
  MICA_PORTABLE Complex<T> operator()(T re, T im) const {
    return {re, im};
  }
};

}  // namespace mica::complex_functor
