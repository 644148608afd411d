// Which calls a loss with its gradient, and the last layer of a classifier with both, stand for.
#include "mica/op/pattern.h"
#include "mica/ops/cross_entropy/cross_entropy.h"

namespace mica {

const OpDef& cross_entropy_with_grad_op();
const OpDef& linear_cross_entropy_op();
const OpDef& linear_cross_entropy_dgrad_op();

namespace {

/// A loss and the gradient for the same logits and targets, times that of the loss where it is not
/// 1.
std::optional<MatchedCall> join_gradient(const Match& match) {
  const MatchedCall& grad = match.calls[0];
  const MatchedCall& loss = match.calls[1];
  if (!(loss.params == grad.params)) return std::nullopt;
  MatchedCall both{&cross_entropy_with_grad_op(), loss.params, loss.in, {loss.out[0], grad.out[0]}};
  if (match.number(grad.in[0]) == 1) return both;
  const TensorSpec& dlogits = match.spec(grad.out[0]);
  if (match.spec(grad.in[0]).dtype != dlogits.dtype) return std::nullopt;  // it scales as f32
  both.out[1] = MatchedCall::kBetween;
  MatchedCall scaled{&find_op("mul"),
                     AnyParams(ParamsRef::of(NoParams{})),
                     {MatchedCall::kBetween, grad.in[0]},
                     grad.out};
  scaled.between = dlogits;
  scaled.before = {std::move(both)};
  return scaled;
}

std::optional<MatchedCall> join_layer(const Match& match) {
  const MatchedCall& loss = match.calls[0];
  const MatchedCall& layer = match.calls[1];
  const OpDef& both = linear_cross_entropy_op();
  if (!both.dtypes.contains(match.spec(loss.in[0]).dtype)) return std::nullopt;
  return MatchedCall{
      &both, loss.params, {layer.in[0], layer.in[1], layer.in[2], loss.in[1]}, loss.out};
}

/// The gradient for the layer's input, or for what an activation made that of, with the loss.
template <Activation activation>
std::optional<MatchedCall> join_input_gradient(const Match& match) {
  const MatchedCall& product = match.calls[0];
  const MatchedCall& loss = match.calls[1];
  const LinearCrossEntropyParams params{loss.params.as<CrossEntropyParams>(), activation};
  const MatchedCall& last = match.calls.size() > 2 ? match.calls[2] : product;
  std::vector<int> in = loss.in;
  in.push_back(match.calls.size() > 2 ? last.in[1] : -1);
  return MatchedCall{&linear_cross_entropy_dgrad_op(),
                     AnyParams(ParamsRef::of(params)),
                     std::move(in),
                     {loss.out[0], loss.out[1], last.out[0]}};
}

}  // namespace

Patterns cross_entropy_patterns() {
  enum { kLogits, kX, kWeight, kGrad, kLoss, kDx, kTargets, kLogsumexp, kScale };
  const Pattern::Call product{"matmul", {kGrad, kWeight}, {kDx}};
  const Pattern::Call loss{"linear_cross_entropy", {kX, kWeight}, {kLoss, kGrad}};
  return {
      {{{"cross_entropy_grad", {kScale, kLogits, kTargets, kLogsumexp}},
        {"cross_entropy", {kLogits, kTargets}, {kLoss, kLogsumexp}}},
       join_gradient},
      {{{"cross_entropy_with_grad", {kLogits}}, {"linear", {}, {kLogits}}}, join_layer},
      {{product, loss, {"relu_grad", {kDx}}}, join_input_gradient<Activation::relu>},
      {{product, loss, {"gelu_grad", {kDx}}}, join_input_gradient<Activation::gelu>},
      {{product, loss}, join_input_gradient<Activation::none>},
  };
}

}  // namespace mica
