#include "mica/distributed/sync_batch_norm.h"

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/nn/describe.h"
#include "mica/ops/batch_norm/batch_norm.h"
#include "mica/ops/collective/collective.h"
#include "mica/ops/concat/concat.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/math/math_ops.h"
#include "mica/ops/reduce/reduce.h"
#include "mica/ops/view/view.h"

namespace mica::distributed {
namespace {

constexpr int kAnyAxes = -1;

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(const nn::BatchNormOptions& o, int64_t group)
    : ChannelNormImpl("SyncBatchNorm", kAnyAxes, o), group_(group) {}

std::string SyncBatchNormImpl::describe() const { return nn::describe(type_, options); }

Tensor SyncBatchNormImpl::forward(const Tensor& x) {
  check<ShapeError>(x.rank() >= 2 && x.size(1) == options.features,
                    "SyncBatchNorm: expected (N, {}, …), got {}", options.features, x.shape());
  const bool own = uses_input_stats();
  if (!own || communicator(group_)->size() == 1)
    return batch_norm(x, weight, bias, running_mean, running_var,
                      {options.eps, options.momentum, own});
  Shape channels;
  Dims axes;
  for (int i = 0; i < x.rank(); ++i) {
    channels.push_back(i == 1 ? options.features : 1);
    if (i != 1) axes.push_back(i);
  }
  const DType dtype = kept_as(x.dtype());
  const Tensor wide = cast(x, dtype);
  // The mean first, then the squares of what differs from it: sums of squares alone lose digits.
  const Tensor count =
      full({1}, static_cast<double>(x.numel() / options.features), {dtype, x.device()});
  const Tensor sums = all_reduce(concat({sum(wide, axes), count}, 0), {.group = group_});
  const Tensor n = slice(sums, 0, options.features, options.features + 1);
  const Tensor mean = div(slice(sums, 0, 0, options.features), n);
  const Tensor centred = sub(wide, reshape(mean, channels));
  const Tensor var = div(all_reduce(sum(square(centred), axes), {.group = group_}), n);
  if (running_mean.defined()) {
    const NoGrad guard;
    const Tensor unbiased = mul(var.detach(), div(n.detach(), sub(n.detach(), 1)));
    const auto follow = [&](const Tensor& running, const Tensor& now) {
      copy_(running, mica::add(mul(running, 1 - options.momentum), mul(now, options.momentum)));
    };
    follow(running_mean, mean.detach());
    follow(running_var, unbiased);
  }
  Tensor y = div(centred, reshape(sqrt(mica::add(var, options.eps)), channels));
  if (weight.defined()) y = mica::add(mul(y, reshape(weight, channels)), reshape(bias, channels));
  return cast(y, x.dtype());
}

SyncBatchNorm::SyncBatchNorm(const nn::BatchNormOptions& options, int64_t group)
    : Handle(options, group) {}
SyncBatchNorm::SyncBatchNorm(int64_t features, int64_t group)
    : Handle(nn::BatchNormOptions{.features = features}, group) {}

nn::Module convert_sync_batch_norm(const nn::Module& module, int64_t group) {
  const auto* norm = dynamic_cast<const nn::ChannelNormImpl*>(module.impl().get());
  const bool is_batch_norm = dynamic_cast<const nn::BatchNormImpl<1>*>(module.impl().get()) ||
                             dynamic_cast<const nn::BatchNormImpl<2>*>(module.impl().get()) ||
                             dynamic_cast<const nn::BatchNormImpl<3>*>(module.impl().get());
  if (is_batch_norm) {
    const SyncBatchNorm made(norm->options, group);
    if (norm->options.affine) made.to(norm->weight.device());
    made.load_state_dict(module.state_dict());
    made.train(module.training());
    return made;
  }
  const auto children = module.impl()->children();
  for (const auto& [name, child] : children) {
    const nn::Module converted = convert_sync_batch_norm(child, group);
    if (converted.impl() != child.impl()) module.impl()->replace_module(name, converted);
  }
  return module;
}

}  // namespace mica::distributed
