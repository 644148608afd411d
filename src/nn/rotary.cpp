#include <cmath>

#include "mica/core/check.h"
#include "mica/nn/linear.h"
#include "mica/nn/transformer.h"
#include "mica/ops/activation/activation.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/view/view.h"

namespace mica::nn {

RotaryEmbeddingImpl::RotaryEmbeddingImpl(const RotaryEmbeddingOptions& o) : options(o) {
  check(o.dim >= 2 && o.dim % 2 == 0, "nn::RotaryEmbedding: dim must be even, got {}", o.dim);
  check(o.base > 0, "nn::RotaryEmbedding: base must be positive, got {}", o.base);
}

Tensor RotaryEmbeddingImpl::forward(const Tensor& x, const std::optional<Tensor>& positions) const {
  check<ShapeError>(x.rank() >= 2 && x.size(-1) == options.dim,
                    "nn::RotaryEmbedding: expected (…, L, {}), got {}", options.dim, x.shape());
  const int64_t length = x.size(-2);
  const int64_t half = options.dim / 2;
  // Angles are computed in f32 at least: a position times a frequency needs its digits.
  const DType exact = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  Tensor places;  // (L, 1) or (B, 1, L, 1)
  if (positions) {
    const bool each = positions->rank() == 2 && x.rank() == 4 && positions->size(0) == x.size(0);
    check<ShapeError>((each || positions->rank() == 1) && positions->size(-1) == length,
                      "nn::RotaryEmbedding: expected positions ({0}), or ({1}, {0}) of four axes, "
                      "got {2}",
                      length, x.size(0), positions->shape());
    places = unsqueeze(cast(*positions, exact), -1);
    if (each) places = unsqueeze(places, 1);
  } else {
    places = unsqueeze(cast(arange(length, {DType::i64, x.device()}), exact), -1);
  }
  const Tensor steps = cast(arange(half, {DType::i64, x.device()}), exact);
  const double rate = -2 * std::log(options.base) / static_cast<double>(options.dim);
  const Tensor angles = places * exp(steps * rate);
  const Tensor c = cast(cos(angles), x.dtype());
  const Tensor s = cast(sin(angles), x.dtype());
  if (!options.interleaved) {
    const Tensor a = narrow(x, -1, 0, half), b = narrow(x, -1, half, half);
    return concat({a * c - b * s, b * c + a * s}, -1);
  }
  Shape pairs = x.shape();
  pairs[pairs.rank() - 1] = half;
  pairs.push_back(2);
  const Tensor split = reshape(x, pairs);
  const Tensor a = select(split, -1, 0), b = select(split, -1, 1);
  const Tensor turned = concat({unsqueeze(a * c - b * s, -1), unsqueeze(b * c + a * s, -1)}, -1);
  return reshape(turned, x.shape());
}

SwiGLUImpl::SwiGLUImpl(const SwiGLUOptions& o) : options(o) {
  register_module("gate_proj", Linear({.in = o.width, .out = o.hidden, .bias = o.bias}));
  register_module("up_proj", Linear({.in = o.width, .out = o.hidden, .bias = o.bias}));
  register_module("down_proj", Linear({.in = o.hidden, .out = o.width, .bias = o.bias}));
}

Tensor SwiGLUImpl::forward(const Tensor& x) const {
  const auto parts = children();
  return parts[2].second(silu(parts[0].second(x)) * parts[1].second(x));
}

std::string RotaryEmbeddingImpl::describe() const {
  return nn::describe("RotaryEmbedding", options);
}
RotaryEmbedding::RotaryEmbedding(const RotaryEmbeddingOptions& options) : Handle(options) {}
RotaryEmbedding::RotaryEmbedding(int64_t dim) : Handle(RotaryEmbeddingOptions{.dim = dim}) {}
std::string SwiGLUImpl::describe() const { return nn::describe("SwiGLU", options); }
SwiGLU::SwiGLU(const SwiGLUOptions& options) : Handle(options) {}

}  // namespace mica::nn
