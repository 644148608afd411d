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

/// The gradient of a convolution that takes each so many-th pixel, without the zeros between them;
/// none for another call.
std::optional<MatchedCall> without_zeros(const Match& match, const MatchedCall& dgrad,
                                         int64_t& apart) {
  Conv2dGradParams p = dgrad.params.as<Conv2dGradParams>();
  apart = p.conv.stride.h;
  if (apart < 2 || p.conv.stride.w != apart) return std::nullopt;
  p.conv.stride = 1;
  if (!is_pointwise(p.conv, match.spec(dgrad.in[1]))) return std::nullopt;
  const Shape& dy = match.spec(dgrad.in[0]).shape;
  p.shape[2] = dy[2];
  p.shape[3] = dy[3];
  return MatchedCall{
      dgrad.op, AnyParams(ParamsRef::of(p)), dgrad.in, {MatchedCall::kBetween}, dgrad.place};
}

/// Likewise below a residual, whose own gradient is one of the two that are added.
template <int kMore, bool kApart>
std::optional<MatchedCall> join_backward(const Match& match) {
  const MatchedCall& norm = match.calls[0];
  const MatchedCall& relu = match.calls[1];
  const MatchedCall& add = match.calls[2];
  const MatchedCall& conv = match.calls[3];
  Conv2dBatchNormGradParams params{conv.params.as<Conv2dGradParams>(),
                                   norm.params.as<BatchNormParams>()};
  const TensorSpec& x = match.spec(norm.in[1]);
  if (!is_pointwise(params.conv.conv, match.spec(conv.in[1]))) return std::nullopt;
  for (const int value : {add.in[kMore], relu.in[1], conv.out[0], relu.out[0]})
    if (match.spec(value).shape != x.shape || match.spec(value).dtype != x.dtype)
      return std::nullopt;
  MatchedCall joined{&conv2d_dgrad_batch_norm_grad_op(),
                     AnyParams(params_info<NoParams>()),
                     {conv.in[0], conv.in[1], add.in[kMore], relu.in[1], norm.in[1], norm.in[2],
                      norm.in[3], norm.in[4]},
                     {norm.out[0], norm.out[1], norm.out[2], relu.out[0]}};
  if (kApart) {
    const auto some = without_zeros(match, match.calls[4], params.apart);
    if (!some) return std::nullopt;
    joined.before = {*some};
    joined.between = match.spec(add.in[kMore]);
    joined.between.shape = params.more_shape();
    joined.between.strides = joined.between.is_channels_last() || x.is_channels_last_dense()
                                 ? channels_last_strides(joined.between.shape)
                                 : contiguous_strides(joined.between.shape);
    joined.in[2] = MatchedCall::kBetween;
  }
  joined.params = AnyParams(ParamsRef::of(params));
  return joined;
}

}  // namespace

Patterns conv2d_batch_norm_patterns() {
  enum { kProduct, kDz, kSum, kY, kD, kMore };
  const Pattern::Call norm{"batch_norm_grad", {kDz}};
  const Pattern::Call relu{"relu_grad", {kSum, kY}, {kDz}};
  const Pattern::Call left{"add", {kD, kMore}, {kSum}};
  const Pattern::Call right{"add", {kMore, kD}, {kSum}};
  const Pattern::Call dgrad{"conv2d_dgrad", {}, {kD}};
  const Pattern::Call apart{"conv2d_dgrad", {}, {kMore}};
  return {{{{"batch_norm", {kProduct}}, {"conv2d", {}, {kProduct}}}, join_forward},
          {{norm, relu, left, dgrad, apart}, join_backward<1, true>},
          {{norm, relu, right, dgrad, apart}, join_backward<0, true>},
          {{norm, relu, left, dgrad}, join_backward<1, false>},
          {{norm, relu, right, dgrad}, join_backward<0, false>}};
}

}  // namespace mica
