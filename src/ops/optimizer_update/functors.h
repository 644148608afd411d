#pragma once

// One functor per formula, a template over the value type: float, double, a vector of them. The
// CPU loops and the CUDA kernel of multi_tensor are made from them. A formula has
//   kStates       the number of its states
//   kReads        whether it reads what it writes to: results of clipping it does not
//   kMasters      whether its targets are parameters, which have masters where they are halves
//   kNumbers      how many numbers it reads from the device: the rate, and for some one more
//   Factors<V>    its constants, made from the op's parameters, those numbers and that of the step
//   apply         one step on an element p (or a vector of them) with gradient g and states s.
#include "mica/ops/elementwise/math.h"
#include "mica/ops/optimizer_update/optimizer_update.h"

namespace mica::update {

/// a and b to the n. A GPU takes microseconds for `pow` of doubles; side by side the two of these
/// take as long as one.
MICA_PORTABLE inline void raise(double& a, double& b, int64_t n) {
  double of_a = 1;
  double of_b = 1;
  for (; n > 0; n >>= 1, a *= a, b *= b) {
    of_a *= (n & 1) != 0 ? a : 1;
    of_b *= (n & 1) != 0 ? b : 1;
  }
  a = of_a;
  b = of_b;
}

using namespace math;

/// Of a step, for the product that is NAdam's second number.
MICA_PORTABLE inline double nadam_momentum(const NadamParams& p, int64_t step) {
  return p.beta1 * (1 - 0.5 * pow(0.96, static_cast<double>(step) * p.momentum_decay));
}

/// Most formulas make a step of parameters by the rate alone.
template <int n>
struct Step {
  static constexpr int kStates = n;
  static constexpr bool kReads = true;
  static constexpr bool kMasters = true;
  static constexpr int kNumbers = 1;
};

template <bool kMomentum, bool kNesterov>
struct SgdStep : Step<kMomentum ? 1 : 0> {
  template <class V>
  struct Factors {
    V lr, momentum, fresh, decay;
  };
  template <class V>
  MICA_PORTABLE static Factors<V> factors(const SgdParams& p, const double* numbers, int64_t step) {
    const double lr = numbers[0];
    return {V(lr), V(p.momentum), V(step == 1 ? 1 : 1 - p.dampening), V(p.weight_decay)};
  }
  template <class V>
  MICA_PORTABLE static void apply(const Factors<V>& f, V& p, V g, [[maybe_unused]] V* s) {
    g = g + f.decay * p;
    if constexpr (kMomentum) {
      s[0] = f.momentum * s[0] + f.fresh * g;
      g = kNesterov ? g + f.momentum * s[0] : s[0];
    }
    p = p - f.lr * g;
  }
};

template <bool kAmsgrad>
struct AdamStep : Step<kAmsgrad ? 3 : 2> {
  template <class V>
  struct Factors {
    V keep, decay, beta1, fresh1, beta2, fresh2, lr, unbias2, eps;
  };
  template <class V>
  MICA_PORTABLE static Factors<V> factors(const AdamParams& p, const double* numbers,
                                          int64_t step) {
    const double lr = numbers[0];
    double beta1 = p.beta1;
    double beta2 = p.beta2;
    raise(beta1, beta2, step);
    const double unbias1 = 1 / (1 - beta1);
    const double unbias2 = 1 / sqrt(1 - beta2);
    return {V(p.decoupled ? 1 - lr * p.weight_decay : 1.0),
            V(p.decoupled ? 0.0 : p.weight_decay),
            V(p.beta1),
            V(1 - p.beta1),
            V(p.beta2),
            V(1 - p.beta2),
            V(lr * unbias1),
            V(unbias2),
            V(p.eps)};
  }
  template <class V>
  MICA_PORTABLE static void apply(const Factors<V>& f, V& p, V g, V* s) {
    p = f.keep * p;
    g = g + f.decay * p;
    s[0] = f.beta1 * s[0] + f.fresh1 * g;
    s[1] = f.beta2 * s[1] + f.fresh2 * (g * g);
    V square = s[1];
    if constexpr (kAmsgrad) square = s[2] = select(s[2] >= square, s[2], square);
    p = p - f.lr * (s[0] / (sqrt(square) * f.unbias2 + f.eps));
  }
};

/// States: square_avg, then momentum, then grad_avg.
template <bool kMomentum, bool kCentered>
struct RmspropStep : Step<1 + kMomentum + kCentered> {
  template <class V>
  struct Factors {
    V lr, alpha, fresh, momentum, decay, eps;
  };
  template <class V>
  MICA_PORTABLE static Factors<V> factors(const RmspropParams& p, const double* numbers, int64_t) {
    const double lr = numbers[0];
    return {V(lr), V(p.alpha), V(1 - p.alpha), V(p.momentum), V(p.weight_decay), V(p.eps)};
  }
  template <class V>
  MICA_PORTABLE static void apply(const Factors<V>& f, V& p, V g, V* s) {
    g = g + f.decay * p;
    s[0] = f.alpha * s[0] + f.fresh * (g * g);
    V square = s[0];
    if constexpr (kCentered) {
      V& mean = s[RmspropStep::kStates - 1];
      mean = f.alpha * mean + f.fresh * g;
      square = square - mean * mean;
      square = select(square < V(0), V(0), square);  // rounding may take it below
    }
    V change = g / (sqrt(square) + f.eps);
    if constexpr (kMomentum) change = s[1] = f.momentum * s[1] + change;
    p = p - f.lr * change;
  }
};

struct AdagradStep : Step<1> {
  template <class V>
  struct Factors {
    V lr, decay, eps;
  };
  template <class V>
  MICA_PORTABLE static Factors<V> factors(const AdagradParams& p, const double* numbers,
                                          int64_t step) {
    const double lr = numbers[0];
    return {V(lr / (1 + static_cast<double>(step - 1) * p.lr_decay)), V(p.weight_decay), V(p.eps)};
  }
  template <class V>
  MICA_PORTABLE static void apply(const Factors<V>& f, V& p, V g, V* s) {
    g = g + f.decay * p;
    s[0] = s[0] + g * g;
    p = p - f.lr * (g / (sqrt(s[0]) + f.eps));
  }
};

struct AdadeltaStep : Step<2> {
  template <class V>
  struct Factors {
    V lr, rho, fresh, decay, eps;
  };
  template <class V>
  MICA_PORTABLE static Factors<V> factors(const AdadeltaParams& p, const double* numbers, int64_t) {
    return {V(numbers[0]), V(p.rho), V(1 - p.rho), V(p.weight_decay), V(p.eps)};
  }
  template <class V>
  MICA_PORTABLE static void apply(const Factors<V>& f, V& p, V g, V* s) {
    g = g + f.decay * p;
    s[0] = f.rho * s[0] + f.fresh * (g * g);
    const V change = sqrt(s[1] + f.eps) / sqrt(s[0] + f.eps) * g;
    s[1] = f.rho * s[1] + f.fresh * (change * change);
    p = p - f.lr * change;
  }
};

struct AdamaxStep : Step<2> {
  template <class V>
  struct Factors {
    V lr, beta1, fresh1, beta2, decay, eps;
  };
  template <class V>
  MICA_PORTABLE static Factors<V> factors(const AdamaxParams& p, const double* numbers,
                                          int64_t step) {
    double beta1 = p.beta1;
    double beta2 = p.beta2;
    raise(beta1, beta2, step);
    return {V(numbers[0] / (1 - beta1)), V(p.beta1), V(1 - p.beta1), V(p.beta2),
            V(p.weight_decay),           V(p.eps)};
  }
  template <class V>
  MICA_PORTABLE static void apply(const Factors<V>& f, V& p, V g, V* s) {
    g = g + f.decay * p;
    s[0] = f.beta1 * s[0] + f.fresh1 * g;
    const V before = f.beta2 * s[1];
    const V now = select(g < V(0), V(0) - g, g) + f.eps;
    s[1] = select(before >= now, before, now);
    p = p - f.lr * (s[0] / s[1]);
  }
};

/// The second number is the product of the momenta of all steps, this one's included.
struct NadamStep : Step<2> {
  static constexpr int kNumbers = 2;
  template <class V>
  struct Factors {
    V keep, decay, beta1, fresh1, beta2, fresh2, of_grad, of_mean, unbias2, eps;
  };
  template <class V>
  MICA_PORTABLE static Factors<V> factors(const NadamParams& p, const double* numbers,
                                          int64_t step) {
    double beta1 = p.beta1;
    double beta2 = p.beta2;
    raise(beta1, beta2, step);
    const double lr = numbers[0];
    const double product = numbers[1];
    const double now = nadam_momentum(p, step);
    const double next = nadam_momentum(p, step + 1);
    return {V(p.decoupled ? 1 - lr * p.weight_decay : 1.0),
            V(p.decoupled ? 0.0 : p.weight_decay),
            V(p.beta1),
            V(1 - p.beta1),
            V(p.beta2),
            V(1 - p.beta2),
            V(lr * (1 - now) / (1 - product)),
            V(lr * next / (1 - product * next)),
            V(1 / sqrt(1 - beta2)),
            V(p.eps)};
  }
  template <class V>
  MICA_PORTABLE static void apply(const Factors<V>& f, V& p, V g, V* s) {
    p = f.keep * p;
    g = g + f.decay * p;
    s[0] = f.beta1 * s[0] + f.fresh1 * g;
    s[1] = f.beta2 * s[1] + f.fresh2 * (g * g);
    p = p - (f.of_grad * g + f.of_mean * s[0]) / (sqrt(s[1]) * f.unbias2 + f.eps);
  }
};

struct RadamStep : Step<2> {
  /// The change is lr * mean / (adapt * (sqrt(square) + eps) + plain), where one of the two is 0.
  template <class V>
  struct Factors {
    V keep, decay, beta1, fresh1, beta2, fresh2, lr, adapt, plain, eps;
  };
  template <class V>
  MICA_PORTABLE static Factors<V> factors(const RadamParams& p, const double* numbers,
                                          int64_t step) {
    double beta1 = p.beta1;
    double beta2 = p.beta2;
    raise(beta1, beta2, step);
    const double lr = numbers[0];
    const double longest = 2 / (1 - p.beta2) - 1;
    const double length = longest - 2 * static_cast<double>(step) * beta2 / (1 - beta2);
    double rate = lr / (1 - beta1);
    const bool adapts = length > 5;
    if (adapts)
      rate *= sqrt(1 - beta2) * sqrt((length - 4) * (length - 2) * longest /
                                     ((longest - 4) * (longest - 2) * length));
    return {V(p.decoupled ? 1 - lr * p.weight_decay : 1.0),
            V(p.decoupled ? 0.0 : p.weight_decay),
            V(p.beta1),
            V(1 - p.beta1),
            V(p.beta2),
            V(1 - p.beta2),
            V(rate),
            V(adapts ? 1.0 : 0.0),
            V(adapts ? 0.0 : 1.0),
            V(p.eps)};
  }
  template <class V>
  MICA_PORTABLE static void apply(const Factors<V>& f, V& p, V g, V* s) {
    p = f.keep * p;
    g = g + f.decay * p;
    s[0] = f.beta1 * s[0] + f.fresh1 * g;
    s[1] = f.beta2 * s[1] + f.fresh2 * (g * g);
    p = p - f.lr * (s[0] / (f.adapt * (sqrt(s[1]) + f.eps) + f.plain));
  }
};

struct LionStep : Step<1> {
  template <class V>
  struct Factors {
    V keep, lr, beta1, fresh1, beta2, fresh2;
  };
  template <class V>
  MICA_PORTABLE static Factors<V> factors(const LionParams& p, const double* numbers, int64_t) {
    return {V(1 - numbers[0] * p.weight_decay),
            V(numbers[0]),
            V(p.beta1),
            V(1 - p.beta1),
            V(p.beta2),
            V(1 - p.beta2)};
  }
  template <class V>
  MICA_PORTABLE static void apply(const Factors<V>& f, V& p, V g, V* s) {
    const V mixed = f.beta1 * s[0] + f.fresh1 * g;
    const V sign = select(mixed > V(0), V(1), select(mixed < V(0), V(-1), mixed));  // NaN stays
    p = f.keep * p - f.lr * sign;
    s[0] = f.beta2 * s[0] + f.fresh2 * g;
  }
};

/// The target is the average, the "gradient" what it averages.
struct EmaStep : Step<0> {
  static constexpr bool kMasters = false;
  template <class V>
  struct Factors {
    V keep, fresh;
  };
  template <class V>
  MICA_PORTABLE static Factors<V> factors(const EmaParams& p, const double*, int64_t step) {
    const double n = static_cast<double>(step);
    const double decay = p.warmup && (1 + n) / (10 + n) < p.decay ? (1 + n) / (10 + n) : p.decay;
    return {V(decay), V(1 - decay)};
  }
  template <class V>
  MICA_PORTABLE static void apply(const Factors<V>& f, V& p, V g, V*) {
    p = f.keep * p + f.fresh * g;
  }
};

struct ClipNormStep : Step<0> {
  static constexpr bool kReads = false;
  static constexpr bool kMasters = false;
  template <class V>
  struct Factors {
    V scale;
  };
  template <class V>
  MICA_PORTABLE static Factors<V> factors(const ClipNormParams& p, const double* numbers, int64_t) {
    const double norm = numbers[0];
    const double scale = p.max_norm / (norm + 1e-6);
    return {V(scale > 1 ? 1.0 : scale)};  // NaN stays
  }
  template <class V>
  MICA_PORTABLE static void apply(const Factors<V>& f, V& p, V g, V*) {
    p = f.scale * g;
  }
};

struct ScaleStep : Step<0> {
  static constexpr bool kReads = false;
  static constexpr bool kMasters = false;
  template <class V>
  struct Factors {
    V factor;
  };
  template <class V>
  MICA_PORTABLE static Factors<V> factors(const ScaleParams&, const double* numbers, int64_t) {
    return {V(numbers[0])};
  }
  template <class V>
  MICA_PORTABLE static void apply(const Factors<V>& f, V& p, V g, V*) {
    p = f.factor * g;
  }
};

struct ClipValueStep : Step<0> {
  static constexpr bool kReads = false;
  static constexpr bool kMasters = false;
  template <class V>
  struct Factors {
    V low, high;
  };
  template <class V>
  MICA_PORTABLE static Factors<V> factors(const ClipValueParams& p, const double*, int64_t) {
    return {V(-p.limit), V(p.limit)};
  }
  template <class V>
  MICA_PORTABLE static void apply(const Factors<V>& f, V& p, V g, V*) {
    p = select(g < f.low, f.low, select(g > f.high, f.high, g));
  }
};

// The ops: what their inputs are called, and which formula their parameters choose. `visit` calls
// `f.template operator()<Step>()`.

/// One that has one formula, whatever its parameters.
template <class P, class S>
struct OneFormula {
  using Params = P;
  static constexpr const char* kScalar = "lr";
  static const char* state_name(const P&, int) { return ""; }
  template <class F>
  static decltype(auto) visit(const P&, F&& f) {
    return f.template operator()<S>();
  }
};

struct Sgd {
  using Params = SgdParams;
  static constexpr const char* kName = "sgd_update";
  static constexpr const char* kScalar = "lr";
  static constexpr bool kNeedsStep = false;
  static const char* state_name(const SgdParams&, int) { return "momentum"; }
  template <class F>
  static decltype(auto) visit(const SgdParams& p, F&& f) {
    if (p.momentum == 0) return f.template operator()<SgdStep<false, false>>();
    if (p.nesterov) return f.template operator()<SgdStep<true, true>>();
    return f.template operator()<SgdStep<true, false>>();
  }
};

struct Adam {
  using Params = AdamParams;
  static constexpr const char* kName = "adam_update";
  static constexpr const char* kScalar = "lr";
  static constexpr bool kNeedsStep = true;
  static const char* state_name(const AdamParams&, int i) {
    return i == 0 ? "exp_avg" : i == 1 ? "exp_avg_sq" : "max_exp_avg_sq";
  }
  template <class F>
  static decltype(auto) visit(const AdamParams& p, F&& f) {
    if (p.amsgrad) return f.template operator()<AdamStep<true>>();
    return f.template operator()<AdamStep<false>>();
  }
};

struct Rmsprop {
  using Params = RmspropParams;
  static constexpr const char* kName = "rmsprop_update";
  static constexpr const char* kScalar = "lr";
  static constexpr bool kNeedsStep = false;
  static const char* state_name(const RmspropParams& p, int i) {
    return i == 0 ? "square_avg" : i == 1 && p.momentum != 0 ? "momentum" : "grad_avg";
  }
  template <class F>
  static decltype(auto) visit(const RmspropParams& p, F&& f) {
    if (p.momentum != 0 && p.centered) return f.template operator()<RmspropStep<true, true>>();
    if (p.momentum != 0) return f.template operator()<RmspropStep<true, false>>();
    if (p.centered) return f.template operator()<RmspropStep<false, true>>();
    return f.template operator()<RmspropStep<false, false>>();
  }
};

struct Adagrad : OneFormula<AdagradParams, AdagradStep> {
  static constexpr const char* kName = "adagrad_update";
  static constexpr bool kNeedsStep = true;
  static const char* state_name(const AdagradParams&, int) { return "sum"; }
};

struct Adadelta : OneFormula<AdadeltaParams, AdadeltaStep> {
  static constexpr const char* kName = "adadelta_update";
  static constexpr bool kNeedsStep = false;
  static const char* state_name(const AdadeltaParams&, int i) {
    return i == 0 ? "square_avg" : "acc_delta";
  }
};

struct Adamax : OneFormula<AdamaxParams, AdamaxStep> {
  static constexpr const char* kName = "adamax_update";
  static constexpr bool kNeedsStep = true;
  static const char* state_name(const AdamaxParams&, int i) {
    return i == 0 ? "exp_avg" : "exp_inf";
  }
};

struct Nadam : OneFormula<NadamParams, NadamStep> {
  static constexpr const char* kName = "nadam_update";
  static constexpr const char* kScalar = "lr with the product of the momenta";
  static constexpr bool kNeedsStep = true;
  static const char* state_name(const NadamParams&, int i) {
    return i == 0 ? "exp_avg" : "exp_avg_sq";
  }
};

struct Radam : OneFormula<RadamParams, RadamStep> {
  static constexpr const char* kName = "radam_update";
  static constexpr bool kNeedsStep = true;
  static const char* state_name(const RadamParams&, int i) {
    return i == 0 ? "exp_avg" : "exp_avg_sq";
  }
};

struct Lion : OneFormula<LionParams, LionStep> {
  static constexpr const char* kName = "lion_update";
  static constexpr bool kNeedsStep = false;
  static const char* state_name(const LionParams&, int) { return "exp_avg"; }
};

struct Ema : OneFormula<EmaParams, EmaStep> {
  static constexpr const char* kName = "ema_update";
  static constexpr const char* kScalar = nullptr;
  static constexpr bool kNeedsStep = true;
};

struct ClipNorm : OneFormula<ClipNormParams, ClipNormStep> {
  static constexpr const char* kName = "clip_by_norm";
  static constexpr const char* kScalar = "norm";
  static constexpr bool kNeedsStep = false;
};

struct Scale : OneFormula<ScaleParams, ScaleStep> {
  static constexpr const char* kName = "scale_tensors";
  static constexpr const char* kScalar = "factor";
  static constexpr bool kNeedsStep = false;
};

struct ClipValue : OneFormula<ClipValueParams, ClipValueStep> {
  static constexpr const char* kName = "clip_by_value";
  static constexpr const char* kScalar = nullptr;
  static constexpr bool kNeedsStep = false;
};

}  // namespace mica::update
