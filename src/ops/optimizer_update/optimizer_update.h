#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"

// The updates of optimizers, with PyTorch's formulas. Each changes all its parameters in one
// launch. Op inputs: lr (one number, f32 or f64), step (an i64, the number of this step, from 1;
// it may be left out where the formula does not need it), params…, grads…, and for each state one
// tensor per parameter. Parameters and states are written to; they are dense, and of one shape,
// dtype and order in memory. States start at zero. Where the step is given and 0 nothing is
// written: so a step is left out without the host.
//
// States of parameters of f16 and bf16 are f32, and one more list follows them: the masters, the
// parameters in f32, which the formula works on and of which the parameters are what is left after
// rounding. An element that is not its master rounded was written to meanwhile, and goes before it.
// Such parameters have calls of their own.
namespace mica {

struct SgdParams {
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  int64_t count = 0;  ///< number of parameters

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("momentum", self.momentum);
    f("dampening", self.dampening);
    f("weight_decay", self.weight_decay);
    f("nesterov", self.nesterov);
    f("count", self.count);
  }
};

struct AdamParams {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;  ///< AdamW: decays the parameter itself, not by way of the gradient
  bool amsgrad = false;
  int64_t count = 0;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("beta1", self.beta1);
    f("beta2", self.beta2);
    f("eps", self.eps);
    f("weight_decay", self.weight_decay);
    f("decoupled", self.decoupled);
    f("amsgrad", self.amsgrad);
    f("count", self.count);
  }
};

struct RmspropParams {
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
  int64_t count = 0;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("alpha", self.alpha);
    f("eps", self.eps);
    f("weight_decay", self.weight_decay);
    f("momentum", self.momentum);
    f("centered", self.centered);
    f("count", self.count);
  }
};

struct AdagradParams {
  double lr_decay = 0;
  double weight_decay = 0;
  double eps = 1e-10;
  int64_t count = 0;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("lr_decay", self.lr_decay);
    f("weight_decay", self.weight_decay);
    f("eps", self.eps);
    f("count", self.count);
  }
};

/// g += weight_decay p;  m = momentum m + (1 - dampening) g, in step 1 m = g;
/// p -= lr (nesterov ? g + momentum m : momentum != 0 ? m : g).
void sgd_update(const Tensor& lr, const Tensors& params, const Tensors& grads,
                const Tensors& momenta, SgdParams options, const Tensor& step = {},
                const Tensors& masters = {});

/// One tensor of each per parameter; `max_exp_avg_sq` where amsgrad is asked for.
struct AdamStates {
  Tensors exp_avg;
  Tensors exp_avg_sq;
  Tensors max_exp_avg_sq = {};
};
/// decoupled ? p -= lr weight_decay p : g += weight_decay p;
/// m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g²;  amsgrad: w = max(w, v), else w = v;
/// p -= lr m / (1 - beta1^step) / (sqrt(w / (1 - beta2^step)) + eps).
void adam_update(const Tensor& lr, const Tensor& step, const Tensors& params, const Tensors& grads,
                 const AdamStates& states, AdamParams options, const Tensors& masters = {});

/// `momentum` and `grad_avg` where the options ask for them.
struct RmspropStates {
  Tensors square_avg;
  Tensors momentum = {};
  Tensors grad_avg = {};
};
/// g += weight_decay p;  v = alpha v + (1 - alpha) g²;
/// centered: a = alpha a + (1 - alpha) g, d = sqrt(v - a²) + eps, else d = sqrt(v) + eps;
/// momentum != 0: m = momentum m + g / d, p -= lr m, else p -= lr g / d.
void rmsprop_update(const Tensor& lr, const Tensors& params, const Tensors& grads,
                    const RmspropStates& states, RmspropParams options, const Tensor& step = {},
                    const Tensors& masters = {});

/// g += weight_decay p;  s += g²;  p -= lr / (1 + (step - 1) lr_decay) g / (sqrt(s) + eps).
void adagrad_update(const Tensor& lr, const Tensor& step, const Tensors& params,
                    const Tensors& grads, const Tensors& sums, AdagradParams options,
                    const Tensors& masters = {});

struct AdadeltaParams {
  double rho = 0.9;
  double eps = 1e-6;
  double weight_decay = 0;
  int64_t count = 0;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("rho", self.rho);
    f("eps", self.eps);
    f("weight_decay", self.weight_decay);
    f("count", self.count);
  }
};

struct AdamaxParams {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  int64_t count = 0;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("beta1", self.beta1);
    f("beta2", self.beta2);
    f("eps", self.eps);
    f("weight_decay", self.weight_decay);
    f("count", self.count);
  }
};

struct NadamParams {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 4e-3;
  bool decoupled = false;
  int64_t count = 0;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("beta1", self.beta1);
    f("beta2", self.beta2);
    f("eps", self.eps);
    f("weight_decay", self.weight_decay);
    f("momentum_decay", self.momentum_decay);
    f("decoupled", self.decoupled);
    f("count", self.count);
  }
};

struct RadamParams {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled = false;
  int64_t count = 0;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("beta1", self.beta1);
    f("beta2", self.beta2);
    f("eps", self.eps);
    f("weight_decay", self.weight_decay);
    f("decoupled", self.decoupled);
    f("count", self.count);
  }
};

struct LionParams {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
  int64_t count = 0;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("beta1", self.beta1);
    f("beta2", self.beta2);
    f("weight_decay", self.weight_decay);
    f("count", self.count);
  }
};

/// g += weight_decay p;  v = rho v + (1 - rho) g²;  d = sqrt(a + eps) / sqrt(v + eps) g;
/// a = rho a + (1 - rho) d²;  p -= lr d.
void adadelta_update(const Tensor& lr, const Tensors& params, const Tensors& grads,
                     const Tensors& square_avg, const Tensors& acc_delta, AdadeltaParams options,
                     const Tensor& step = {}, const Tensors& masters = {});

/// g += weight_decay p;  m = beta1 m + (1 - beta1) g;  u = max(beta2 u, |g| + eps);
/// p -= lr / (1 - beta1^step) m / u.
void adamax_update(const Tensor& lr, const Tensor& step, const Tensors& params,
                   const Tensors& grads, const Tensors& exp_avg, const Tensors& exp_inf,
                   AdamaxParams options, const Tensors& masters = {});

/// The momentum of step t, of which NAdam multiplies those of all steps:
/// beta1 (1 - 0.96^(t momentum_decay) / 2).
/// decoupled ? p -= lr weight_decay p : g += weight_decay p;
/// m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g²;  d = sqrt(v / (1 - beta2^step)) +
/// eps; p -= lr ((1 - mu) / (1 - product) g + mu' / (1 - product mu') m) / d, with the momenta mu
/// of this step and mu' of the next. `numbers`: f64 [2], lr and the product of the momenta, mu
/// included.
void nadam_update(const Tensor& numbers, const Tensor& step, const Tensors& params,
                  const Tensors& grads, const Tensors& exp_avg, const Tensors& exp_avg_sq,
                  NadamParams options, const Tensors& masters = {});

/// Adam whose adaptive rate is left out while too few steps were made to know its variance, and
/// scaled by what is known of it after.
void radam_update(const Tensor& lr, const Tensor& step, const Tensors& params, const Tensors& grads,
                  const Tensors& exp_avg, const Tensors& exp_avg_sq, RadamParams options,
                  const Tensors& masters = {});

/// p -= lr weight_decay p;  p -= lr sign(beta1 m + (1 - beta1) g);  m = beta2 m + (1 - beta2) g.
void lion_update(const Tensor& lr, const Tensors& params, const Tensors& grads,
                 const Tensors& exp_avg, LionParams options, const Tensor& step = {},
                 const Tensors& masters = {});

struct EmaParams {
  double decay = 0.999;
  bool warmup = false;  ///< at most (1 + step) / (10 + step)
  int64_t count = 0;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("decay", self.decay);
    f("warmup", self.warmup);
    f("count", self.count);
  }
};

/// averages = decay averages + (1 - decay) values.
void ema_update(const Tensor& step, const Tensors& averages, const Tensors& values,
                EmaParams options);

struct ClipNormParams {
  double max_norm = 1;
  int64_t count = 0;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("max_norm", self.max_norm);
    f("count", self.count);
  }
};

struct ClipValueParams {
  double limit = 1;
  int64_t count = 0;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("limit", self.limit);
    f("count", self.count);
  }
};

struct ScaleParams {
  int64_t count = 0;

  template <class Self, class F>
  static void fields(Self& self, F&& f) {
    f("count", self.count);
  }
};

/// The Euclidean norm of all elements of all tensors together, one number: f64 where one of them is
/// f64, else f32. Added up in double; the same bits whatever the number of threads.
Tensor total_norm(const Tensors& tensors);

/// The tensors times min(1, max_norm / (norm + 1e-6)), in memory of their own.
/// Op inputs: norm (as lr above), nothing, results… (mutated), tensors….
Tensors clip_by_norm(const Tensor& norm, const Tensors& tensors, double max_norm);
/// The tensors with every element between -limit and limit; NaN stays.
/// Op inputs: nothing twice, results… (mutated), tensors….
Tensors clip_by_value(const Tensors& tensors, double limit);
/// The tensors times a factor, in memory of their own.
/// Op inputs: factor (as lr above), nothing, results… (mutated), tensors….
Tensors scale_tensors(const Tensor& factor, const Tensors& tensors);

}  // namespace mica
