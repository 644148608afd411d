#pragma once

// What optimizers' updates compute, in double, written without the library.
#include <algorithm>
#include <cmath>
#include <functional>

#include "mica/ops/optimizer_update/optimizer_update.h"

namespace mica::cases {

/// One step of one element, in double: changes p and the states.
using Formula = std::function<void(double lr, double step, double& p, double g, double* s)>;

inline Formula sgd_formula(const SgdParams& p) {
  return [=](double lr, double step, double& w, double g, double* s) {
    g += p.weight_decay * w;
    if (p.momentum != 0) {
      s[0] = p.momentum * s[0] + (step == 1 ? 1 : 1 - p.dampening) * g;
      g = p.nesterov ? g + p.momentum * s[0] : s[0];
    }
    w -= lr * g;
  };
}

inline Formula adam_formula(const AdamParams& p) {
  return [=](double lr, double step, double& w, double g, double* s) {
    if (p.decoupled) {
      w -= lr * p.weight_decay * w;
    } else {
      g += p.weight_decay * w;
    }
    s[0] = p.beta1 * s[0] + (1 - p.beta1) * g;
    s[1] = p.beta2 * s[1] + (1 - p.beta2) * g * g;
    if (p.amsgrad) s[2] = std::max(s[2], s[1]);
    const double mean = s[0] / (1 - std::pow(p.beta1, step));
    const double square = (p.amsgrad ? s[2] : s[1]) / (1 - std::pow(p.beta2, step));
    w -= lr * mean / (std::sqrt(square) + p.eps);
  };
}

inline Formula rmsprop_formula(const RmspropParams& p) {
  return [=](double lr, double, double& w, double g, double* s) {
    const bool momentum = p.momentum != 0;
    g += p.weight_decay * w;
    s[0] = p.alpha * s[0] + (1 - p.alpha) * g * g;
    double square = s[0];
    if (p.centered) {
      double& mean = s[1 + momentum];
      mean = p.alpha * mean + (1 - p.alpha) * g;
      square -= mean * mean;
    }
    double change = g / (std::sqrt(square) + p.eps);
    if (momentum) change = s[1] = p.momentum * s[1] + change;
    w -= lr * change;
  };
}

inline Formula adagrad_formula(const AdagradParams& p) {
  return [=](double lr, double step, double& w, double g, double* s) {
    g += p.weight_decay * w;
    s[0] += g * g;
    w -= lr / (1 + (step - 1) * p.lr_decay) * g / (std::sqrt(s[0]) + p.eps);
  };
}

}  // namespace mica::cases
