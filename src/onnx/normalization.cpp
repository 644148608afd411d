// Normalizations and dropout.
#include <algorithm>

#include "mica/onnx/broadcast.h"
#include "mica/onnx/call.h"
#include "mica/ops/batch_norm/batch_norm.h"
#include "mica/ops/compare/compare.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/dropout/dropout.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/group_norm/group_norm.h"
#include "mica/ops/layer_norm/layer_norm.h"
#include "mica/ops/local_response_norm/local_response_norm.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/pad/pad.h"
#include "mica/ops/random/random.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/repeat/repeat.h"
#include "mica/ops/where/where.h"

namespace mica::onnx {
namespace {

Results batch_normalization(const Call& c) {
  const Tensor x = c[0];
  const double eps = c.number("epsilon", 1e-5);
  const double momentum = c.number("momentum", 0.9);
  const bool by_batch = c.integer("training_mode", 0) != 0;
  if (!by_batch)  // mica's momentum is the weight of the new
    return batch_norm(x, c[1], c[2], c[3], c[4],
                      {.eps = eps, .momentum = 1 - momentum, .training = c.training()});
  Dims axes = {0};
  Shape channels = {1, x.rank() > 1 ? x.shape()[1] : 1};
  for (int i = 2; i < x.rank(); ++i) {
    axes.push_back(i);
    channels.push_back(1);
  }
  const Tensor mean = mica::mean(x, axes);
  const Tensor variance = var(x, axes, false, 0);
  const auto running = [&](const Tensor& before, const Tensor& now) {
    return add(mul(before, momentum), mul(cast(now, before.dtype()), 1 - momentum));
  };
  const auto wide = [&](const Tensor& t) { return reshape(t, channels); };
  const Tensor normal = div(sub(x, wide(mean)), sqrt(add(wide(variance), eps)));
  return {cast(add(mul(normal, wide(c[1])), wide(c[2])), x.dtype()), running(c[3], mean),
          running(c[4], variance)};
}

Results group_normalization(const Call& c) {
  const Tensor x = c[0];
  Tensor scale = c[1];
  Tensor bias = c[2];
  const int64_t groups = c.integer("num_groups");
  const int64_t channels = x.shape()[1];
  if (scale.numel() == groups && groups != channels) {  // version 18: one for each group
    scale = repeat_interleave(scale, channels / groups, 0);
    bias = repeat_interleave(bias, channels / groups, 0);
  }
  return group_norm(x, scale, bias, {.groups = groups, .eps = c.number("epsilon", 1e-5)});
}

Shape last_axes(const Call& c, const Tensor& x) {
  Shape shape;
  for (auto i = static_cast<int>(axis_of(c, c.integer("axis", -1), x.rank())); i < x.rank(); ++i)
    shape.push_back(x.shape()[i]);
  return shape;
}

Results layer_normalization(const Call& c) {
  const Tensor x = c[0];
  const double eps = c.number("epsilon", 1e-5);
  const Shape shape = last_axes(c, x);
  const Tensor weight = c[1];
  const Tensor bias = c.maybe(2);
  const bool plain = weight.shape() == shape && (!bias.defined() || bias.shape() == shape) &&
                     weight.dtype() == x.dtype();
  if (plain && !c.wants(1) && !c.wants(2)) return layer_norm(x, shape, weight, bias, eps);
  Dims axes;
  for (int i = x.rank() - shape.rank(); i < x.rank(); ++i) axes.push_back(i);
  const Tensor wide = cast(x, x.dtype() == DType::f64 ? DType::f64 : DType::f32);
  const Tensor mean = mica::mean(wide, axes, true);
  const Tensor rstd = rsqrt(add(var(wide, axes, true, 0), eps));
  Tensor y = mul(cast(mul(sub(wide, mean), rstd), x.dtype()), weight);
  if (bias.defined()) y = add(y, bias);
  return {y, mean, rstd};
}

Results rms_normalization(const Call& c) {
  const Tensor x = c[0];
  const double eps = c.number("epsilon", 1e-5);
  const Shape shape = last_axes(c, x);
  const Tensor weight = c[1];
  if (weight.shape() == shape && weight.dtype() == x.dtype())
    return rms_norm(x, shape, weight, eps);
  return mul(rms_norm(x, shape, {}, eps), weight);
}

Results lrn(const Call& c) {
  const Tensor x = c[0];
  const int64_t size = c.integer("size");
  const double alpha = c.number("alpha", 1e-4);
  const double beta = c.number("beta", 0.75);
  const double bias = c.number("bias", 1);
  c.check(size >= 1 && x.rank() >= 2, "a size of {} for {}", size, x.shape());
  if (size % 2 == 1)
    return local_response_norm(x, {.size = size, .alpha = alpha, .beta = beta, .k = bias});
  PadParams around;
  around.before = around.after = Dims::filled(x.rank(), 0);
  around.before[1] = (size - 1) / 2;
  around.after[1] = size / 2;
  const Tensor squares = pad(square(x), around);
  Tensor sum;
  for (int64_t i = 0; i < size; ++i) {
    const Tensor part = slice(squares, 1, i, i + x.shape()[1]);
    sum = sum.defined() ? add(sum, part) : part;
  }
  return div(x, pow(add(mul(sum, alpha / static_cast<double>(size)), bias), beta));
}

Results mean_variance(const Call& c) {
  const Tensor x = c[0];
  const Dims axes = axes_of(c, c.ints("axes", {0, 2, 3}), x.rank());
  return div(sub(x, mean(x, axes, true)), add(std(x, axes, true, 0), 1e-9));
}

Results lp_normalization(const Call& c) {
  const Tensor x = c[0];
  const int64_t axis = axis_of(c, c.integer("axis", -1), x.rank());
  const Tensor length = norm(x, static_cast<double>(c.integer("p", 2)), {axis}, true);
  return where(eq(length, 0), 0.0, div(x, length));
}

/// In training it draws; elsewhere it hands its input on.
Results dropout_of(const Call& c) {
  const Tensor x = c[0];
  double ratio = c.number("ratio", 0.5);
  bool training = c.training();
  if (c.opset() >= 12) {
    ratio = c.has(1) ? c.number(1) : 0.5;
    training = training || (c.has(2) && c.truth(c.value(2)));
  } else if (c.opset() < 7) {
    training = training || c.integer("is_test", 0) == 0;
  }
  if (!training || ratio == 0) {
    const DType mask = c.opset() < 10 ? x.dtype() : DType::boolean;
    if (!c.wants(1)) return x;
    return {x, ones(x.shape(), {mask, x.device()})};
  }
  if (!c.wants(1)) return dropout(x, ratio);
  const Tensor kept = ge(uniform_like(x), ratio);
  return {mul(where(kept, x, 0.0), 1 / (1 - ratio)), kept};
}

}  // namespace

Operators normalization_operators() {
  return {
      {"BatchNormalization", batch_normalization},
      {"InstanceNormalization",
       [](const Call& c) -> Results {
         return instance_norm(c[0], {}, {}, c[1], c[2], {.eps = c.number("epsilon", 1e-5)});
       }},
      {"GroupNormalization", group_normalization},
      {"LayerNormalization", layer_normalization},
      {"RMSNormalization", rms_normalization},
      {"LRN", lrn},
      {"MeanVarianceNormalization", mean_variance},
      {"LpNormalization", lp_normalization},
      {"Dropout", dropout_of, false},
  };
}

}  // namespace mica::onnx
