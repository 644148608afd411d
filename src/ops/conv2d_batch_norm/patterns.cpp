// Which calls conv2d_batch_norm and the gradient stand for.
#include "mica/op/pattern.h"
#include "mica/ops/conv2d_batch_norm/conv2d_batch_norm.h"

namespace mica {

const OpDef& conv2d_batch_norm_op();
const OpDef& conv2d_dgrad_batch_norm_grad_op();

namespace {

/// A window of one pixel, and each pixel: the convolution is a product of matrices.
bool is_pointwise(const Conv2dParams& conv, const TensorSpec& weight) {
  return weight.shape[2] == 1 && weight.shape[3] == 1 && conv.stride == Size2(1) &&
         conv.padding == Size2(0) && conv.groups == 1;
}

/// The batch norm's sums over channels are taken where the convolution makes its operand.
std::optional<MatchedCall> join_forward(const Match& match) {
  const MatchedCall& norm = match.calls[0];
  const MatchedCall& conv = match.calls[1];
  const Conv2dBatchNormParams params{conv.params.as<Conv2dParams>(),
                                     norm.params.as<BatchNormParams>()};
  if (!params.norm.training || !is_pointwise(params.conv, match.spec(conv.in[1])))
    return std::nullopt;
  MatchedCall joined{&conv2d_batch_norm_op(),
                     AnyParams(ParamsRef::of(params)),
                     conv.in,
                     {norm.out[0], norm.out[1], norm.out[2], conv.out[0]}};
  joined.in.insert(joined.in.end(), norm.in.begin() + 1, norm.in.end());
  // New versions of what it writes to.
  joined.out.insert(joined.out.end(), norm.out.begin() + 3, norm.out.end());
  return joined;
}

/// Likewise below a residual, whose own gradient is one of the two that are added.
template <int kMore>
std::optional<MatchedCall> join_backward(const Match& match) {
  const MatchedCall& norm = match.calls[0];
  const MatchedCall& relu = match.calls[1];
  const MatchedCall& add = match.calls[2];
  const MatchedCall& conv = match.calls[3];
  const Conv2dBatchNormGradParams params{conv.params.as<Conv2dGradParams>(),
                                         norm.params.as<BatchNormParams>()};
  const TensorSpec& x = match.spec(norm.in[1]);
  if (!is_pointwise(params.conv.conv, match.spec(conv.in[1]))) return std::nullopt;
  for (const int value : {add.in[kMore], relu.in[1], conv.out[0], relu.out[0]})
    if (match.spec(value).shape != x.shape || match.spec(value).dtype != x.dtype)
      return std::nullopt;
  return MatchedCall{&conv2d_dgrad_batch_norm_grad_op(),
                     AnyParams(ParamsRef::of(params)),
                     {conv.in[0], conv.in[1], add.in[kMore], relu.in[1], norm.in[1], norm.in[2],
                      norm.in[3], norm.in[4]},
                     {norm.out[0], norm.out[1], norm.out[2], relu.out[0]}};
}

}  // namespace

Patterns conv2d_batch_norm_patterns() {
  enum { kProduct, kDz, kSum, kY, kD, kMore };
  const Pattern::Call norm{"batch_norm_grad", {kDz}};
  const Pattern::Call relu{"relu_grad", {kSum, kY}, {kDz}};
  const Pattern::Call dgrad{"conv2d_dgrad", {}, {kD}};
  return {{{{"batch_norm", {kProduct}}, {"conv2d", {}, {kProduct}}}, join_forward},
          {{norm, relu, {"add", {kD, kMore}, {kSum}}, dgrad}, join_backward<1>},
          {{norm, relu, {"add", {kMore, kD}, {kSum}}, dgrad}, join_backward<0>}};
}

}  // namespace mica
