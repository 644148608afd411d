#pragma once

// What optimizers' updates compute, in double, written without the library.
#include <algorithm>
#include <cmath>
#include <functional>

#include "mica/ops/optimizer_update/optimizer_update.h"
#include "tests/op_cases/op_case.h"

namespace mica::cases {

/// One step of one element, in double: changes p and the states.
using Formula = std::function<void(double lr, double step, double& p, double g, double* s)>;

inline std::vector<HostArray> inputs(const HostArgs& args, size_t first, size_t n) {
  const auto begin = args.in.begin() + static_cast<int64_t>(first);
  return {begin, begin + static_cast<int64_t>(n)};
}

/// The parameters and states after an update. Inputs: lr, step, parameters, what their gradients
/// are or are made of, states.
inline std::vector<HostArray> updated(const HostArgs& in, const std::vector<HostArray>& grads,
                                      size_t states, const Formula& formula) {
  const size_t n = grads.size();
  std::vector<HostArray> results = inputs(in, 2, n);
  for (size_t k = 0; k < states * n; ++k) results.push_back(in[2 + 2 * n + k]);
  for (size_t i = 0; i < n; ++i)
    for (size_t e = 0; e < results[i].values.size(); ++e) {
      double own[3] = {};
      for (size_t k = 0; k < states; ++k) own[k] = results[(1 + k) * n + i].values[e];
      formula(in[0].values[0], in[1].values[0], results[i].values[e], grads[i].values[e], own);
      for (size_t k = 0; k < states; ++k) results[(1 + k) * n + i].values[e] = own[k];
    }
  return results;
}

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

inline Formula adadelta_formula(const AdadeltaParams& p) {
  return [=](double lr, double, double& w, double g, double* s) {
    g += p.weight_decay * w;
    s[0] = p.rho * s[0] + (1 - p.rho) * g * g;
    const double change = std::sqrt(s[1] + p.eps) / std::sqrt(s[0] + p.eps) * g;
    s[1] = p.rho * s[1] + (1 - p.rho) * change * change;
    w -= lr * change;
  };
}

inline Formula adamax_formula(const AdamaxParams& p) {
  return [=](double lr, double step, double& w, double g, double* s) {
    g += p.weight_decay * w;
    s[0] = p.beta1 * s[0] + (1 - p.beta1) * g;
    s[1] = std::max(p.beta2 * s[1], std::abs(g) + p.eps);
    w -= lr / (1 - std::pow(p.beta1, step)) * s[0] / s[1];
  };
}

/// For a product of momenta of 0.25.
inline Formula nadam_formula(const NadamParams& p) {
  return [=](double lr, double step, double& w, double g, double* s) {
    const double product = 0.25;
    const auto momentum = [&](double t) {
      return p.beta1 * (1 - 0.5 * std::pow(0.96, t * p.momentum_decay));
    };
    if (p.decoupled) {
      w -= lr * p.weight_decay * w;
    } else {
      g += p.weight_decay * w;
    }
    s[0] = p.beta1 * s[0] + (1 - p.beta1) * g;
    s[1] = p.beta2 * s[1] + (1 - p.beta2) * g * g;
    const double root = std::sqrt(s[1] / (1 - std::pow(p.beta2, step))) + p.eps;
    w -= lr * (1 - momentum(step)) / (1 - product) * g / root;
    w -= lr * momentum(step + 1) / (1 - product * momentum(step + 1)) * s[0] / root;
  };
}

inline Formula radam_formula(const RadamParams& p) {
  return [=](double lr, double step, double& w, double g, double* s) {
    if (p.decoupled) {
      w -= lr * p.weight_decay * w;
    } else {
      g += p.weight_decay * w;
    }
    s[0] = p.beta1 * s[0] + (1 - p.beta1) * g;
    s[1] = p.beta2 * s[1] + (1 - p.beta2) * g * g;
    const double mean = s[0] / (1 - std::pow(p.beta1, step));
    const double power = std::pow(p.beta2, step);
    const double longest = 2 / (1 - p.beta2) - 1;
    const double length = longest - 2 * step * power / (1 - power);
    double factor = 1;
    if (length > 5)
      factor = std::sqrt((length - 4) * (length - 2) * longest /
                         ((longest - 4) * (longest - 2) * length)) *
               std::sqrt(1 - power) / (std::sqrt(s[1]) + p.eps);
    w -= lr * mean * factor;
  };
}

inline Formula lion_formula(const LionParams& p) {
  return [=](double lr, double, double& w, double g, double* s) {
    const double mixed = p.beta1 * s[0] + (1 - p.beta1) * g;
    w -= lr * p.weight_decay * w;
    w -= lr * (mixed > 0 ? 1 : mixed < 0 ? -1 : 0);
    s[0] = p.beta2 * s[0] + (1 - p.beta2) * g;
  };
}

}  // namespace mica::cases
