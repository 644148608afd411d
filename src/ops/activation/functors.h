#pragma once

// Each activation f(x) and its gradient, dy * f'(x), as functors. Those with parameters are the
// op's Params at the same time.
#include "mica/ops/activation/functor_params.h"
#include "mica/ops/elementwise/math.h"

namespace mica {

namespace functor {

using namespace math;

template <class T>
MICA_PORTABLE T logistic(T x) {
  return T(1) / (T(1) + exp(-x));
}

struct LeakyRelu : LeakyReluParams {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return select(x > T(0), x, x * T(slope));
  }
};
struct LeakyReluGrad : LeakyReluParams {
  template <class T>
  MICA_PORTABLE T operator()(T dy, T x) const {
    return select(x > T(0), dy, dy * T(slope));
  }
};

struct Elu : EluParams {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return select(x > T(0), x, T(alpha) * expm1(x));
  }
};
struct EluGrad : EluParams {
  template <class T>
  MICA_PORTABLE T operator()(T dy, T x) const {
    return select(x > T(0), dy, dy * T(alpha) * exp(x));
  }
};

inline constexpr double kSeluAlpha = 1.6732632423543772848170429916717;
inline constexpr double kSeluScale = 1.0507009873554804934193349852946;
struct Selu {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return T(kSeluScale) * select(x > T(0), x, T(kSeluAlpha) * expm1(x));
  }
};
struct SeluGrad {
  template <class T>
  MICA_PORTABLE T operator()(T dy, T x) const {
    return T(kSeluScale) * dy * select(x > T(0), T(1), T(kSeluAlpha) * exp(x));
  }
};

inline constexpr double kSqrtHalf = 0.70710678118654752440;     // 1 / sqrt(2)
inline constexpr double kInvSqrt2Pi = 0.39894228040143267794;   // 1 / sqrt(2 pi)
inline constexpr double kSqrt2OverPi = 0.79788456080286535588;  // sqrt(2 / pi)
inline constexpr double kGeluCubic = 0.044715;
struct Gelu {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return T(0.5) * x * (T(1) + erf(x * T(kSqrtHalf)));
  }
};
struct GeluGrad {
  template <class T>
  MICA_PORTABLE T operator()(T dy, T x) const {
    const T below = T(0.5) * (T(1) + erf(x * T(kSqrtHalf)));
    return dy * (below + x * T(kInvSqrt2Pi) * exp(T(-0.5) * x * x));
  }
};
// (1 + tanh(u)) / 2 is the logistic of 2u, which keeps its digits where the tanh nears -1.
struct GeluTanh {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return x * logistic(T(2 * kSqrt2OverPi) * (x + T(kGeluCubic) * x * x * x));
  }
};
struct GeluTanhGrad {
  template <class T>
  MICA_PORTABLE T operator()(T dy, T x) const {
    const T v = T(2 * kSqrt2OverPi) * (x + T(kGeluCubic) * x * x * x);
    const T e = exp(-v);
    const T s = T(1) / (T(1) + e);
    const T rest = select(v < T(-80), T(0), e * s);  // 1 - s, with all its digits
    const T slope = T(2 * kSqrt2OverPi) * (T(1) + T(3 * kGeluCubic) * x * x);
    return dy * (s + x * s * rest * slope);
  }
};

struct Silu {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return x * logistic(x);
  }
};
struct SiluGrad {
  template <class T>
  MICA_PORTABLE T operator()(T dy, T x) const {
    const T s = logistic(x);
    return dy * s * (T(1) + x * (T(1) - s));
  }
};

struct Softplus : SoftplusParams {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    const T scaled = x * T(beta);
    return select(scaled > T(threshold), x, log1p(exp(scaled)) / T(beta));
  }
};
struct SoftplusGrad : SoftplusParams {
  template <class T>
  MICA_PORTABLE T operator()(T dy, T x) const {
    const T scaled = x * T(beta);
    return select(scaled > T(threshold), dy, dy * logistic(scaled));
  }
};

struct Hardsigmoid {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    const T y = x / T(6) + T(0.5);
    return select(y < T(0), T(0), select(y > T(1), T(1), y));
  }
};
struct HardsigmoidGrad {
  template <class T>
  MICA_PORTABLE T operator()(T dy, T x) const {
    return select((x > T(-3)) & (x < T(3)), dy / T(6), T(0));
  }
};

/// tanh(log(1 + exp(x))) = e (e + 2) / (e (e + 2) + 2) for e = exp(x); it is 1 long before e^2
/// overflows.
template <class T>
MICA_PORTABLE T tanh_softplus(T x) {
  const T e = exp(x);
  const T n = e * (e + T(2));
  return select(x > T(20), T(1), n / (n + T(2)));
}
struct Mish {
  template <class T>
  MICA_PORTABLE T operator()(T x) const {
    return x * tanh_softplus(x);
  }
};
struct MishGrad {
  template <class T>
  MICA_PORTABLE T operator()(T dy, T x) const {
    const T t = tanh_softplus(x);
    return dy * (t + x * logistic(x) * (T(1) - t * t));
  }
};

struct Prelu {
  template <class T>
  MICA_PORTABLE T operator()(T x, T weight) const {
    return select(x > T(0), x, x * weight);
  }
};

}  // namespace functor
}  // namespace mica
