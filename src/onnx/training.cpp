// Steps of optimizers, of ai.onnx.preview.training. Inputs are a rate, a step count, and for each
// kind of tensor as many as there are weights.
#include <cmath>

#include "mica/onnx/call.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/math/math_ops.h"

namespace mica::onnx {
namespace {

/// Calls f(i of each kind) for every weight and gives all results, kind by kind.
template <class F>
Results for_each_weight(const Call& c, int kinds, int gives, F f) {
  const int count = (c.inputs() - 2) / kinds;
  c.check(count >= 1 && c.inputs() == 2 + kinds * count, "{} inputs", c.inputs());
  std::vector<std::vector<Values>> results(static_cast<size_t>(gives));
  for (int i = 0; i < count; ++i) {
    Tensors of;
    for (int k = 0; k < kinds; ++k) of.push_back(c[2 + k * count + i]);
    const Tensors made = f(of);
    for (size_t k = 0; k < results.size(); ++k)
      results[k].emplace_back(cast(made[k], of[0].dtype()));
  }
  Results all;
  for (const auto& kind : results) all.insert(all.end(), kind.begin(), kind.end());
  return all;
}

Tensor regularized(const Call& c, const Tensor& x, const Tensor& g) {
  return add(mul(x, c.number("norm_coefficient", 0)), g);
}

Results adagrad(const Call& c) {
  const double rate = c.number(0) / (1 + c.number(1) * c.number("decay_factor", 0));
  return for_each_weight(c, 3, 2, [&](const Tensors& of) -> Tensors {
    const Tensor g = regularized(c, of[0], of[1]);
    const Tensor h = add(of[2], square(g));
    return {sub(of[0], div(mul(g, rate), add(sqrt(h), c.number("epsilon", 1e-6)))), h};
  });
}

Results adam(const Call& c) {
  const double alpha = c.number("alpha", 0.9);
  const double beta = c.number("beta", 0.999);
  const double t = c.number(1);
  double rate = c.number(0);
  if (t > 0) rate *= std::sqrt(1 - std::pow(beta, t)) / (1 - std::pow(alpha, t));
  return for_each_weight(c, 4, 3, [&](const Tensors& of) -> Tensors {
    const Tensor g = regularized(c, of[0], of[1]);
    const Tensor v = add(mul(of[2], alpha), mul(g, 1 - alpha));
    const Tensor h = add(mul(of[3], beta), mul(square(g), 1 - beta));
    const Tensor x = sub(of[0], div(mul(v, rate), add(sqrt(h), c.number("epsilon", 1e-6))));
    return {mul(x, 1 - c.number("norm_coefficient_post", 0)), v, h};
  });
}

Results momentum(const Call& c) {
  const double alpha = c.number("alpha", 0);
  const double beta = c.number(1) > 0 ? c.number("beta", 0) : 1;
  const bool nesterov = c.text("mode") == "nesterov";
  return for_each_weight(c, 3, 2, [&](const Tensors& of) -> Tensors {
    const Tensor g = regularized(c, of[0], of[1]);
    const Tensor v = add(mul(of[2], alpha), mul(g, beta));
    return {sub(of[0], mul(nesterov ? add(g, mul(v, alpha)) : v, c.number(0))), v};
  });
}

}  // namespace

Operators training_operators() {
  return {{"Adagrad", adagrad}, {"Adam", adam}, {"Momentum", momentum}};
}

}  // namespace mica::onnx
