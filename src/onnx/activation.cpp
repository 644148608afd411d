// Activations and softmax.
#include "mica/ops/activation/activation.h"

#include <cmath>

#include "mica/onnx/broadcast.h"
#include "mica/onnx/call.h"
#include "mica/ops/activation/compositions.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/embedding/embedding.h"
#include "mica/ops/hardswish/hardswish.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/softmax/softmax.h"
#include "mica/ops/where/where.h"

namespace mica::onnx {
namespace {

/// Along one axis; before version 13 over all axes from it on, as one.
template <class F>
Results along_axis(const Call& c, F f) {
  const Tensor x = c[0];
  if (c.opset() >= 13) return f(x, axis_of(c, c.integer("axis", -1), x.rank()));
  const int64_t axis = axis_of(c, c.integer("axis", 1), x.rank());
  if (axis == x.rank() - 1) return f(x, axis);
  Shape rows;
  for (int i = 0; i < axis; ++i) rows.push_back(x.shape()[i]);
  rows.push_back(-1);
  return reshape(f(reshape(x, rows), axis), x.shape());
}

/// One where the first largest is, else zero.
Tensor hardmax(const Tensor& x, int64_t axis) {
  const Tensor last = movedim(x, {axis}, {-1});
  const Tensor hot = one_hot(argmax(last, -1), last.shape().back());
  return movedim(cast(hot, x.dtype()), {-1}, {axis});
}

Results prelu_of(const Call& c) {
  const Tensor x = c[0];
  Tensor slope = c[1];
  if (c.opset() < 7 && slope.rank() == 1 && x.rank() > 2) {  // one for each channel
    Shape shape = {slope.numel()};
    for (int i = 2; i < x.rank(); ++i) shape.push_back(1);
    slope = reshape(slope, shape);
  }
  return where(lt(x, 0), mul(x, slope), x);
}

Results shrink(const Call& c) {
  const Tensor x = c[0];
  const double bias = c.number("bias", 0);
  const double limit = c.number("lambd", 0.5);
  const Tensor zero = mul(x, 0);
  const Tensor upper = where(gt(x, limit), sub(x, bias), zero);
  return cast(where(lt(x, -limit), add(x, bias), upper), x.dtype());
}

Results hard_sigmoid(const Call& c) {
  const double alpha = c.number("alpha", 0.2);
  const double beta = c.number("beta", 0.5);
  constexpr auto kSixth = static_cast<double>(1.0F / 6);  // as a model holds it
  if (std::abs(alpha - kSixth) < 1e-6 && beta == 0.5) return hardsigmoid(c[0]);
  return clamp(add(mul(c[0], alpha), beta), Number(0.0), Number(1.0));
}

Results elu_of(const Call& c) { return elu(c[0], {.alpha = c.number("alpha", 1)}); }

Results celu_of(const Call& c) { return celu(c[0], c.number("alpha", 1)); }

Results selu_of(const Call& c) {
  const double alpha = c.number("alpha", 1.67326319217681884765625);
  const double gamma = c.number("gamma", 1.05070102214813232421875);
  return mul(elu(c[0], {.alpha = alpha}), gamma);
}

Results thresholded_relu(const Call& c) {
  const Tensor x = c[0];
  return where(gt(x, c.number("alpha", 1)), x, 0.0);
}

Results swish(const Call& c) {
  const double alpha = c.number("alpha", 1);
  const Tensor x = c[0];
  if (alpha == 1) return silu(x);
  return mul(x, sigmoid(mul(x, alpha)));
}

Results swiglu(const Call& c) {
  Tensor gate = c[0];
  if (const double alpha = c.number("alpha", 1); alpha != 1)
    return mul(mul(gate, sigmoid(mul(gate, alpha))), c[1]);
  return mul(silu(gate), c[1]);
}

}  // namespace

Operators activation_operators() {
  return {
      {"Relu", [](const Call& c) -> Results { return relu(c[0]); }},
      {"Sigmoid", [](const Call& c) -> Results { return sigmoid(c[0]); }},
      {"Tanh", [](const Call& c) -> Results { return tanh(c[0]); }},
      {"LeakyRelu",
       [](const Call& c) -> Results { return leaky_relu(c[0], {c.number("alpha", 0.01)}); }},
      {"PRelu", prelu_of},
      {"Elu", elu_of},
      {"Celu", celu_of},
      {"Selu", selu_of},
      {"Gelu",
       [](const Call& c) -> Results {
         return gelu(c[0], c.text("approximate") == "tanh" ? GeluForm::tanh : GeluForm::erf);
       }},
      {"Softplus", [](const Call& c) -> Results { return softplus(c[0]); }},
      {"Softsign", [](const Call& c) -> Results { return softsign(c[0]); }},
      {"HardSigmoid", hard_sigmoid},
      {"HardSwish", [](const Call& c) -> Results { return hardswish(c[0]); }},
      {"Mish", [](const Call& c) -> Results { return mish(c[0]); }},
      {"Shrink", shrink},
      {"ThresholdedRelu", thresholded_relu},
      {"Swish", swish},
      {"SwiGLU", swiglu},
      {"Softmax", [](const Call& c) -> Results { return along_axis(c, softmax); }},
      {"LogSoftmax", [](const Call& c) -> Results { return along_axis(c, log_softmax); }},
      {"Hardmax", [](const Call& c) -> Results { return along_axis(c, hardmax); }},
  };
}

}  // namespace mica::onnx
