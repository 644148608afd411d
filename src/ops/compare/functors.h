#pragma once

#include "mica/ops/elementwise/math.h"

namespace mica::functor {

using namespace math;

struct Eq {
  template <class T>
  MICA_PORTABLE bool operator()(T a, T b) const {
    return a == b;
  }
};
struct Ne {
  template <class T>
  MICA_PORTABLE bool operator()(T a, T b) const {
    return a != b;
  }
};
struct Lt {
  template <class T>
  MICA_PORTABLE bool operator()(T a, T b) const {
    return a < b;
  }
};
struct Le {
  template <class T>
  MICA_PORTABLE bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct Gt {
  template <class T>
  MICA_PORTABLE bool operator()(T a, T b) const {
    return a > b;
  }
};
struct Ge {
  template <class T>
  MICA_PORTABLE bool operator()(T a, T b) const {
    return a >= b;
  }
};
struct LogicalAnd {
  template <class T>
  MICA_PORTABLE bool operator()(T a, T b) const {
    return (a != T(0)) & (b != T(0));
  }
};
struct LogicalOr {
  template <class T>
  MICA_PORTABLE bool operator()(T a, T b) const {
    return (a != T(0)) | (b != T(0));
  }
};
struct LogicalXor {
  template <class T>
  MICA_PORTABLE bool operator()(T a, T b) const {
    return (a != T(0)) != (b != T(0));
  }
};
struct LogicalNot {
  template <class T>
  MICA_PORTABLE bool operator()(T x) const {
    return x == T(0);
  }
};

struct IsNan {
  template <class T>
  MICA_PORTABLE bool operator()(T x) const {
    return x != x;
  }
};
// inf - inf is not a number.
struct IsInf {
  template <class T>
  MICA_PORTABLE bool operator()(T x) const {
    const T zero = x - x;
    return x == x && zero != zero;
  }
};
struct IsFinite {
  template <class T>
  MICA_PORTABLE bool operator()(T x) const {
    return x - x == T(0);
  }
};
// Of -0 and of NaN too.
struct SignBit {
  MICA_PORTABLE bool operator()(float x) const { return ::copysignf(1.0F, x) < 0; }
  MICA_PORTABLE bool operator()(double x) const { return ::copysign(1.0, x) < 0; }
  template <class T>
  MICA_PORTABLE bool operator()(T x) const {
    return is_negative(x);
  }
};

struct BitwiseAnd {
  template <class T>
  MICA_PORTABLE T operator()(T a, T b) const {
    return a & b;
  }
};
struct BitwiseOr {
  template <class T>
  MICA_PORTABLE T operator()(T a, T b) const {
    return a | b;
  }
};
struct BitwiseXor {
  template <class T>
  MICA_PORTABLE T operator()(T a, T b) const {
    return a ^ b;
  }
};
struct BitwiseNot {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return ~x;
  }
};
/// Shifts by less than nothing or by the whole width give 0 (or -1 for negative numbers to the
/// right).
struct LeftShift {
  template <class T>
  MICA_PORTABLE T operator()(T a, T b) const {
    constexpr T kBits = 8 * sizeof(T);
    return is_negative(b) || b >= kBits ? T(0)
                                        : wrapped<T>(static_cast<unsigned long long>(a) << b);
  }
};
struct RightShift {
  template <class T>
  MICA_PORTABLE T operator()(T a, T b) const {
    constexpr T kBits = 8 * sizeof(T);
    return is_negative(b) || b >= kBits ? (is_negative(a) ? T(-1) : T(0)) : a >> b;
  }
};

}  // namespace mica::functor
