// Gradients of an activation before a max-pooling are taken after it, where there are fewer: what
// they are computed from, the activation's results, is known there where gradients are not zero.
#include "mica/op/pattern.h"
#include "mica/ops/max_pool2d/max_pool2d.h"

namespace mica {

std::optional<MatchedCall> without_positions(const Match& match);  // in values.cpp

namespace {

bool may_overlap(const MaxPool2dParams& p) {
  const auto along = [](int64_t kernel, int64_t stride, int64_t dilation) {
    return (kernel - 1) * dilation >= (stride == 0 ? kernel : stride);
  };
  return along(p.kernel.h, p.stride.h, p.dilation.h) || along(p.kernel.w, p.stride.w, p.dilation.w);
}

/// The activation's gradient is computed from its results (dy, y), and linear in dy: it gives 0
/// where dy is 0, and may be taken before dy is spread. Where windows overlap dy is summed, which
/// relu's gradient alone lets through to the bit.
template <bool kIsRelu>
std::optional<MatchedCall> move_gradient(const Match& match) {
  const MatchedCall& activation = match.calls[0];
  const MatchedCall& spread = match.calls[1];
  const MatchedCall& pool = match.calls[2];
  if (!kIsRelu && may_overlap(pool.params.as<MaxPool2dParams>())) return std::nullopt;
  const TensorSpec& between = match.spec(spread.out[0]);
  const TensorSpec& result = match.spec(activation.out[0]);
  if (between.strides != result.strides || between.dtype != result.dtype) return std::nullopt;
  const TensorSpec& dy = match.spec(spread.in[0]);
  TensorSpec pooled = TensorSpec::contiguous(dy.shape, dy.dtype, dy.device);
  if (dy.is_channels_last()) pooled.strides = channels_last_strides(dy.shape);
  pooled.defined = true;
  MatchedCall last = spread;
  last.in[0] = MatchedCall::kBetween;
  last.out = activation.out;
  last.between = pooled;
  last.before = {
      {activation.op, activation.params, {spread.in[0], pool.out[0]}, {MatchedCall::kBetween}}};
  return last;
}

}  // namespace

Patterns max_pool2d_patterns() {
  enum { kSpread, kY, kDy, kPositions, kPooled };
  const Pattern::Call spread{"max_pool2d_grad", {kDy, kPositions}, {kSpread}};
  const Pattern::Call pool{"max_pool2d", {kY}, {kPooled, kPositions}, true};
  return {
      {{{"relu_grad", {kSpread, kY}}, spread, pool}, move_gradient<true>},
      {{{"tanh_grad", {kSpread, kY}}, spread, pool}, move_gradient<false>},
      {{{"sigmoid_grad", {kSpread, kY}}, spread, pool}, move_gradient<false>},
  };
}

/// After those that join the pooling with what comes before it.
Patterns max_pool2d_values_patterns() { return {{{{"max_pool2d", {}, {0}}}, without_positions}}; }

}  // namespace mica
