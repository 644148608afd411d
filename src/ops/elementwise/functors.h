#pragma once

// One functor per function, a template over the value type: float, double, a vector of them,
// int64_t, uint64_t. The CPU loops and the CUDA kernels use the same functor; the header has no
// includes but the one below, so that run-time compilation can take it.
#include "mica/ops/elementwise/math.h"

namespace mica::functor {

using namespace math;

struct Add {
  template <class T>
  MICA_PORTABLE T operator()(T a, T b) const {
    if constexpr (kIsInteger<T>) return wrapped<T>(0ULL + a + b);
    return a + b;
  }
};

struct Sub {
  template <class T>
  MICA_PORTABLE T operator()(T a, T b) const {
    if constexpr (kIsInteger<T>) return wrapped<T>(0ULL + a - b);
    return a - b;
  }
};

struct Mul {
  template <class T>
  MICA_PORTABLE T operator()(T a, T b) const {
    if constexpr (kIsInteger<T>) return wrapped<T>(1ULL * a * b);
    return a * b;
  }
};

struct Div {
  template <class T>
  MICA_PORTABLE T operator()(T a, T b) const {
    return a / b;
  }
};

struct Neg {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    if constexpr (kIsInteger<T>) return wrapped<T>(0ULL - x);
    return -x;
  }
};

struct Relu {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    if constexpr (kIsInteger<T>) {
      return is_negative(x) ? T(0) : x;
    } else {
      return select(x < T(0), T(0), x);  // keeps NaN
    }
  }
};

struct ReluGrad {
  template <class T>
  MICA_PORTABLE T operator()(T dy, T y) const {
    return select(y > T(0), dy, T(0));
  }
};

/// The smaller one; NaN wins.
struct Minimum {
  template <class T>
  MICA_PORTABLE T operator()(T a, T b) const {
    return select((a < b) | (a != a), a, b);
  }
};

struct Maximum {
  template <class T>
  MICA_PORTABLE T operator()(T a, T b) const {
    return select((a > b) | (a != a), a, b);
  }
};

/// a - b * floor(a / b), with the sign of b. Kernels see to it that integers are not divided by
/// zero: of a functor with `kByZero` they raise that.
struct Remainder {
  static constexpr const char* kByZero = "remainder: an integer was divided by zero";
  template <class T>
  MICA_PORTABLE T operator()(T a, T b) const {
    if constexpr (kIsInteger<T>) {
      if (b == 0 || is_minus_one(b)) return 0;
      const T r = a % b;
      return r != 0 && is_negative(r) != is_negative(b) ? r + b : r;
    } else {
      const T r = fmod(a, b);
      const T zero = select(b < T(0), T(-0.0), T(0));
      return select(r == T(0), zero,
                    select(((r < T(0)) & (b > T(0))) | ((r > T(0)) & (b < T(0))), r + b, r));
    }
  }
};

/// floor(a / b) without the rounding of a / b.
struct FloorDivide {
  static constexpr const char* kByZero = "floor_divide: an integer was divided by zero";
  template <class T>
  MICA_PORTABLE T operator()(T a, T b) const {
    if constexpr (kIsInteger<T>) {
      if (b == 0) return 0;
      if (is_minus_one(b)) return wrapped<T>(0ULL - a);
      const T q = a / b;
      return a % b != 0 && is_negative(a) != is_negative(b) ? q - 1 : q;
    } else {
      const T r = fmod(a, b);
      const T whole = (a - r) / b;
      const T q =
          select(((r < T(0)) & (b > T(0))) | ((r > T(0)) & (b < T(0))), whole - T(1), whole);
      const T down = floor(q);
      const T result = select(q - down > T(0.5), down + T(1), down);
      // A zero has the sign of the quotient.
      return select((b == T(0)) | ((result == T(0)) & (a == T(0))), a / b, result);
    }
  }
};

/// Integers to a negative power are 1 / a^|b| rounded to zero.
struct Pow {
  template <class T>
  MICA_PORTABLE T operator()(T a, T b) const {
    if constexpr (kIsInteger<T>) {
      if (is_negative(b)) return a == 1 ? 1 : is_minus_one(a) ? (b % 2 == 0 ? 1 : T(-1)) : 0;
      unsigned long long result = 1;
      for (unsigned long long base = a; b > 0; b >>= 1, base *= base)
        if (b & 1) result *= base;
      return wrapped<T>(result);
    } else {
      return pow(a, b);
    }
  }
};

struct Atan2 {
  template <class T>
  MICA_PORTABLE T operator()(T y, T x) const {
    return atan2(y, x);
  }
};

/// From a to b by the part `weight`; exact at both ends.
struct Lerp {
  template <class T>
  MICA_PORTABLE T operator()(T a, T b, T weight) const {
    return select(weight < T(0.5), a + weight * (b - a), b - (b - a) * (T(1) - weight));
  }
};

}  // namespace mica::functor
