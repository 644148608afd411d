// Which calls conv2d_pool and its gradients stand for.
#include "mica/op/pattern.h"
#include "mica/ops/conv2d_pool/conv2d_pool.h"
#include "mica/ops/reduce/reduce.h"

namespace mica {

const OpDef& conv2d_pool_op();
const OpDef& conv2d_pool_dgrad_op();
const OpDef& conv2d_pool_wgrad_op();
const OpDef& sum_op();

namespace {

template <class P>
MatchedCall call_of(const OpDef& op, const P& params, std::vector<int> in, std::vector<int> out) {
  return {&op, AnyParams(ParamsRef::of(params)), std::move(in), std::move(out)};
}

template <bool kRelu>
std::optional<MatchedCall> join_forward(const Match& match) {
  const MatchedCall& pool = match.calls.front();
  const MatchedCall& conv = match.calls.back();
  const Conv2dPoolParams params{conv.params.as<Conv2dParams>(), pool.params.as<MaxPool2dParams>(),
                                kRelu};
  return call_of(conv2d_pool_op(), params, conv.in, pool.out);
}

std::optional<MatchedCall> join_dgrad(const Match& match) {
  const MatchedCall& dgrad = match.calls[0];
  const MatchedCall& spread = match.calls[1];
  const auto& p = dgrad.params.as<Conv2dGradParams>();
  const Conv2dPoolGradParams params{p.conv, spread.params.as<MaxPool2dGradParams>().pool, p.shape};
  return call_of(conv2d_pool_dgrad_op(), params, {spread.in[0], spread.in[1], dgrad.in[1], -1},
                 dgrad.out);
}

/// Whether a call sums over everything but the channels, as a bias's gradient does.
bool sums_channels(const MatchedCall& sum) {
  const auto& p = sum.params.as<ReduceParams>();
  return p.axes == Dims{0, 2, 3} && !p.keepdim;
}

std::optional<MatchedCall> join_wgrad(const Match& match) {
  const MatchedCall& wgrad = match.calls[0];
  const MatchedCall& spread = match.calls[1];
  const bool bias = match.calls.size() > 2;
  if (bias && !sums_channels(match.calls[2])) return std::nullopt;
  const auto& p = wgrad.params.as<Conv2dGradParams>();
  const Conv2dPoolGradParams params{p.conv, spread.params.as<MaxPool2dGradParams>().pool, p.shape,
                                    bias, p.channels_last};
  std::vector<int> out = wgrad.out;
  if (bias) out.push_back(match.calls[2].out[0]);
  return call_of(conv2d_pool_wgrad_op(), params, {spread.in[0], spread.in[1], wgrad.in[1]}, out);
}

/// The same numbers, and fewer zeros.
std::optional<MatchedCall> sum_pooled(const Match& match) {
  MatchedCall sum = match.calls[0];
  if (!sums_channels(sum)) return std::nullopt;
  sum.in = {match.calls[1].in[0]};
  return sum;
}

/// The weight's and the bias's gradients of a convolution that was not pooled.
std::optional<MatchedCall> join_bias(const Match& match) {
  const MatchedCall& wgrad = match.calls[0];
  const MatchedCall& sum = match.calls[1];
  if (!sums_channels(sum)) return std::nullopt;
  const auto& p = wgrad.params.as<Conv2dGradParams>();
  const Conv2dPoolGradParams params{
      p.conv, {.kernel = 1, .stride = 1}, p.shape, true, p.channels_last};
  return call_of(conv2d_pool_wgrad_op(), params, {wgrad.in[0], -1, wgrad.in[1]},
                 {wgrad.out[0], sum.out[0]});
}

/// The gradient of a pooled convolution's input, where that was a relu's result.
std::optional<MatchedCall> join_relu_gradient(const Match& match) {
  MatchedCall dgrad = match.calls[1];
  if (dgrad.in.back() >= 0) return std::nullopt;
  dgrad.in.back() = match.calls[0].in[1];
  dgrad.out = match.calls[0].out;
  return dgrad;
}

}  // namespace

Patterns conv2d_pool_patterns() {
  enum { kSpread, kConvolved, kPooled, kDy, kDx };
  const Pattern::Call spread{"max_pool2d_grad", {}, {kSpread}, true};
  return {
      {{{"max_pool2d", {kPooled}}, {"conv2d", {}, {kPooled}}}, join_forward<false>},
      {{{"max_pool2d", {kPooled}}, {"relu", {kConvolved}, {kPooled}}, {"conv2d", {}, {kConvolved}}},
       join_forward<true>},
      {{{"conv2d_dgrad", {kSpread}}, spread}, join_dgrad},
      {{{"conv2d_wgrad", {kSpread}}, spread, {"sum", {kSpread}}}, join_wgrad},
      {{{"conv2d_wgrad", {kSpread}}, spread}, join_wgrad},
      {{{"sum", {kSpread}}, spread}, sum_pooled},
      {{{"conv2d_wgrad", {kDy}}, {"sum", {kDy}}}, join_bias},
      {{{"relu_grad", {kDx}}, {"conv2d_pool_dgrad", {}, {kDx}}}, join_relu_gradient},
  };
}

}  // namespace mica
