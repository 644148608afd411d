#pragma once

// Functions of complex numbers in double for CUDA kernels, where std::complex has none. Those of
// complex64 are computed in double too, in which nothing in between overflows.
#include <cmath>

#include "mica/core/complex.h"

namespace mica::complex_math {

using Z = Complex<double>;

MICA_PORTABLE inline Z times_i(Z z) { return {-z.im, z.re}; }
MICA_PORTABLE inline Z times_minus_i(Z z) { return {z.im, -z.re}; }
MICA_PORTABLE inline bool is_finite(double x) { return x * 0 == 0; }

/// exp(x) (cos y, sin y) for x past the range of exp whose product may be within it.
MICA_PORTABLE inline Z scaled_exp(double x, double y, double factor) {
  constexpr double kStep = 700;
  const double first = ::exp(x - kStep) * factor;
  const double rest = ::exp(kStep);
  return {first * ::cos(y) * rest, first * ::sin(y) * rest};
}

MICA_PORTABLE inline Z exp(Z z) {
  constexpr double kLargest = 700;
  if (z.im == 0) return {::exp(z.re), z.im};
  if (!is_finite(z.im)) {
    if (z.re < 0 && !is_finite(z.re)) return {0, 0};
    const double nan = z.im - z.im;
    return {z.re > 0 && !is_finite(z.re) ? z.re : nan, nan};
  }
  if (z.re > kLargest && is_finite(z.re)) return scaled_exp(z.re, z.im, 1);
  const double size = ::exp(z.re);
  return {size * ::cos(z.im), size * ::sin(z.im)};
}

MICA_PORTABLE inline Z log(Z z) {
  const double x = ::fabs(z.re);
  const double y = ::fabs(z.im);
  const double larger = x > y ? x : y;
  const double smaller = x > y ? y : x;
  double size = 0;
  if (larger > 0.5 && larger < 2) {
    size = ::log1p((larger - 1) * (larger + 1) + smaller * smaller) / 2;
  } else if (larger > 0x1p1000 && is_finite(larger)) {
    size = ::log(::hypot(x * 0.25, y * 0.25)) + 2 * 0.6931471805599453;
  } else {
    size = ::log(::hypot(x, y));
  }
  return {size, ::atan2(z.im, z.re)};
}

MICA_PORTABLE inline Z log10(Z z) { return log(z) * 0.4342944819032518; }

MICA_PORTABLE inline Z sqrt(Z z) {
  if (z.re == 0 && z.im == 0) return {0, z.im};
  if (!is_finite(z.im) && z.im == z.im) return {::fabs(z.im), z.im};
  const double larger = ::fmax(::fabs(z.re), ::fabs(z.im));
  double scale = 1;
  double back = 1;
  if (larger > 0x1p1020) {
    scale = 0.0625, back = 4;
  } else if (larger < 0x1p-1000) {
    scale = 0x1p54, back = 0x1p-27;
  }
  const double x = z.re * scale;
  const double y = z.im * scale;
  const double root = ::sqrt((::fabs(x) + ::hypot(x, y)) / 2);
  const double other = ::fabs(y) / (2 * root);
  const Z first = x >= 0 ? Z(root, ::copysign(other, y)) : Z(other, ::copysign(root, y));
  return first * back;
}

MICA_PORTABLE inline Z sinh(Z z) {
  constexpr double kLargest = 700;
  const double x = ::fabs(z.re);
  if (z.im == 0) return {::sinh(z.re), z.im};
  if (x > kLargest && is_finite(x) && is_finite(z.im)) {
    const Z e = scaled_exp(x, z.im, 0.5);
    return {::copysign(1, z.re) * e.re, e.im};
  }
  return {::sinh(z.re) * ::cos(z.im), ::cosh(z.re) * ::sin(z.im)};
}
MICA_PORTABLE inline Z cosh(Z z) {
  constexpr double kLargest = 700;
  const double x = ::fabs(z.re);
  if (z.im == 0) return {::cosh(z.re), z.re * z.im};
  if (x > kLargest && is_finite(x) && is_finite(z.im)) {
    const Z e = scaled_exp(x, z.im, 0.5);
    return {e.re, ::copysign(1, z.re) * e.im};
  }
  return {::cosh(z.re) * ::cos(z.im), ::sinh(z.re) * ::sin(z.im)};
}
/// By the tangent of the angle, so that nothing cancels.
MICA_PORTABLE inline Z tanh(Z z) {
  constexpr double kLargest = 22;  // past which the real part is 1 but for rounding
  const double x = ::fabs(z.re);
  if (x > kLargest) {
    const double small =
        is_finite(z.im) ? 4 * ::sin(z.im) * ::cos(z.im) * ::exp(-2 * x) : ::copysign(0, z.im);
    return {::copysign(1, z.re), small};
  }
  const double t = ::tan(z.im);
  const double beta = 1 + t * t;
  const double s = ::sinh(z.re);
  const double rho = ::sqrt(1 + s * s);
  if (!is_finite(t)) return {rho / s, 1 / t};
  const double below = 1 + beta * s * s;
  return {beta * rho * s / below, t / below};
}

MICA_PORTABLE inline Z sin(Z z) { return times_minus_i(sinh(times_i(z))); }
MICA_PORTABLE inline Z cos(Z z) { return cosh(times_i(z)); }
MICA_PORTABLE inline Z tan(Z z) { return times_minus_i(tanh(times_i(z))); }

// The inverse functions as Kahan gives them: by roots of 1 - z and 1 + z, which keep their digits.

MICA_PORTABLE inline Z asin(Z z) {
  const Z minus = sqrt(Z(1 - z.re, -z.im));
  const Z plus = sqrt(Z(1 + z.re, z.im));
  return {::atan2(z.re, minus.re * plus.re - minus.im * plus.im),
          ::asinh(minus.re * plus.im - minus.im * plus.re)};
}
MICA_PORTABLE inline Z acos(Z z) {
  const Z minus = sqrt(Z(1 - z.re, -z.im));
  const Z plus = sqrt(Z(1 + z.re, z.im));
  return {2 * ::atan2(minus.re, plus.re), ::asinh(plus.re * minus.im - plus.im * minus.re)};
}
MICA_PORTABLE inline Z acosh(Z z) {
  const Z minus = sqrt(Z(z.re - 1, z.im));
  const Z plus = sqrt(Z(z.re + 1, z.im));
  return {::asinh(minus.re * plus.re + minus.im * plus.im), 2 * ::atan2(minus.im, plus.re)};
}
MICA_PORTABLE inline Z asinh(Z z) { return times_i(asin(times_minus_i(z))); }
MICA_PORTABLE inline Z atanh(Z z) {
  constexpr double kHuge = 0x1p500;
  const double x = ::fabs(z.re);
  const double y = z.im;
  if (x > kHuge || ::fabs(y) > kHuge) {
    // 1 / z is all that is left beside a quarter turn.
    const double larger = ::fmax(x, ::fabs(y));
    const double a = x / larger;
    const double b = y / larger;
    const double re = is_finite(larger) ? a / (a * a + b * b) / larger : 0;
    return {::copysign(re, z.re), ::copysign(1.5707963267948966, y)};
  }
  const double re = ::log1p(4 * x / ((1 - x) * (1 - x) + y * y)) / 4;
  const double im = ::atan2(2 * y, (1 - x) * (1 + x) - y * y) / 2;
  return {::copysign(re, z.re), im};
}
MICA_PORTABLE inline Z atan(Z z) { return times_minus_i(atanh(times_i(z))); }

}  // namespace mica::complex_math
