#pragma once

#include "mica/core/tensor.h"
#include "mica/op/fields.h"
#include "mica/ops/activation/functor_params.h"

namespace mica {

// relu stands in ops/elementwise, sigmoid and tanh in ops/math, hardswish in a room of its own.

Tensor leaky_relu(const Tensor& x, const LeakyReluParams& params = {});
/// x where it is positive, else weight * x: one weight, or one for each channel of x (N, C, …).
Tensor prelu(const Tensor& x, const Tensor& weight);
/// x in [0, limit].
Tensor clipped_relu(const Tensor& x, double limit = 6.0);
Tensor elu(const Tensor& x, const EluParams& params = {});
Tensor selu(const Tensor& x);
/// x * P(X <= x) for a normal X; `tanh` is the usual approximation.
enum class GeluForm { erf, tanh };
Tensor gelu(const Tensor& x, GeluForm form = GeluForm::erf);
/// x * sigmoid(x).
Tensor silu(const Tensor& x);
/// log(1 + exp(beta * x)) / beta.
Tensor softplus(const Tensor& x, const SoftplusParams& params = {});
/// clamp(x + 3, 0, 6) / 6.
Tensor hardsigmoid(const Tensor& x);
/// x * tanh(softplus(x)).
Tensor mish(const Tensor& x);
/// log(sigmoid(x)).
Tensor log_sigmoid(const Tensor& x);

}  // namespace mica
