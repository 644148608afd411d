#pragma once

#include "mica/core/tensor.h"

// Activations that are made of other ops.
namespace mica {

/// x in [0, 6].
Tensor relu6(const Tensor& x);
/// x / (1 + |x|).
Tensor softsign(const Tensor& x);
/// x - tanh(x).
Tensor tanhshrink(const Tensor& x);
/// softmax(-x).
Tensor softmin(const Tensor& x, int64_t axis);
/// x in [low, high].
Tensor hardtanh(const Tensor& x, double low = -1, double high = 1);
/// x where it is positive, else alpha * (exp(x / alpha) - 1).
Tensor celu(const Tensor& x, double alpha = 1);
/// a * sigmoid(b) of the two halves of x along an axis.
Tensor glu(const Tensor& x, int64_t axis = -1);
/// 0 in [-lambd, lambd], else x.
Tensor hardshrink(const Tensor& x, double lambd = 0.5);
/// x moved by lambd towards 0, and no further.
Tensor softshrink(const Tensor& x, double lambd = 0.5);
/// x where it is above the limit, else the value.
Tensor threshold(const Tensor& x, double limit, double value);

struct GumbelSoftmaxOptions {
  double tau = 1;     ///< the temperature: a small one leaves nearly all to one class
  bool hard = false;  ///< a one-hot result, with the gradient of the soft one
  int64_t axis = -1;
};
/// Probabilities of classes drawn by the logits: softmax((logits + Gumbel noise) / tau).
Tensor gumbel_softmax(const Tensor& logits, const GumbelSoftmaxOptions& options = {});

}  // namespace mica
