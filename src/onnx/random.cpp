// Random numbers, from mica's generator: a seed of the node is not used.
#include "mica/ops/random/random.h"

#include "mica/onnx/call.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/random/multinomial.h"

namespace mica::onnx {
namespace {

TensorOptions options(const Call& c, DType dtype) { return {c.dtype("dtype", dtype), c.device()}; }

Results normal_of(const Call& c) {
  return normal(Shape(c.ints("shape")), c.number("mean", 0), c.number("scale", 1),
                options(c, DType::f32));
}
Results normal_like_of(const Call& c) {
  return normal(c[0].shape(), c.number("mean", 0), c.number("scale", 1), options(c, c[0].dtype()));
}
Results uniform_of(const Call& c) {
  return uniform(Shape(c.ints("shape")), c.number("low", 0), c.number("high", 1),
                 options(c, DType::f32));
}
Results uniform_like_of(const Call& c) {
  return uniform(c[0].shape(), c.number("low", 0), c.number("high", 1), options(c, c[0].dtype()));
}
Results bernoulli_of(const Call& c) {
  return cast(bernoulli(c[0]), c.dtype("dtype", c[0].dtype()));
}
/// From logarithms of probabilities.
Results multinomial_of(const Call& c) {
  const int64_t samples = c.integer("sample_size", 1);
  return cast(multinomial(exp(c[0]), samples, true), c.dtype("dtype", DType::i32));
}

}  // namespace

Operators random_operators() {
  return {
      {"RandomNormal", normal_of, false},   {"RandomNormalLike", normal_like_of, false},
      {"RandomUniform", uniform_of, false}, {"RandomUniformLike", uniform_like_of, false},
      {"Bernoulli", bernoulli_of, false},   {"Multinomial", multinomial_of, false},
  };
}

}  // namespace mica::onnx
