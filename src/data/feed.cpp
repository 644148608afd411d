#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/data/loader_state.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/view/view.h"

namespace mica::data {
namespace {

/// What an epoch has at most; kUnknownSize where that is not known.
int64_t most_examples(const LoaderState& state) {
  const auto& by_batches = state.options.batch_sampler;
  if (!by_batches) return state.examples;
  const bool known = by_batches->size != kUnknownSize && by_batches->largest > 0;
  return known ? by_batches->size * by_batches->largest : kUnknownSize;
}

}  // namespace

bool Feed::is_possible(const Loader& loader) {
  return loader.options().resident && most_examples(*loader.state_) != kUnknownSize;
}

Feed::Feed(const Loader& loader) : state_(loader.state_) {
  const LoaderOptions& o = state_->options;
  check(o.resident, "data::Feed: expected a loader whose data set is resident");
  const int64_t most = most_examples(*state_);
  check<Unsupported>(most != kUnknownSize,
                     "data::Feed: the sampler does not say how many examples an epoch has at most");
  largest_ = o.batch_sampler ? o.batch_sampler->largest : o.batch;
  const TensorOptions count = {.dtype = DType::i64, .device = o.device};
  order_ = zeros({most}, count);
  for (const Transform& transform : o.augment) {
    const Tensor one = transform.draw(std::vector<int64_t>{0}, {});
    parameters_.push_back(
        one.defined() ? zeros({most, one.size(1)}, {.dtype = one.dtype(), .device = o.device})
                      : one);
  }
  ramp_ = to(arange(largest_ + 1), o.device);
  at_ = zeros({}, count);
}

void Feed::start(int64_t epoch, int64_t first_batch) {
  const NoGrad guard;
  const EpochOrder order = state_->order(epoch, state_->options.device);
  check(first_batch >= 0 && first_batch <= order.batches(),
        "data::Feed: expected a batch up to {}, got {}", order.batches(), first_batch);
  std::vector<int64_t> sizes;
  std::vector<int64_t> wholes;
  for (int64_t b = 0; b < order.batches(); ++b) {
    sizes.push_back(order.size_of(b));
    wholes.push_back(order.whole_of(b));
    check(sizes.back() <= largest_, "data::Feed: batch {} has {} examples, more than {}", b,
          sizes.back(), largest_);
  }
  sizes_ = std::move(sizes);
  wholes_ = std::move(wholes);
  // In place: a function captured before knows where they lie.
  const int64_t n = order.examples();
  copy_(slice(order_, 0, 0, n), order.indices);
  const Tensors drawn = state_->parameters(epoch, order);
  for (size_t i = 0; i < drawn.size(); ++i)
    if (drawn[i].defined()) copy_(slice(parameters_[i], 0, 0, n), drawn[i]);
  fill_(at_, static_cast<double>(order.begin_of(first_batch)));
}

Batch Feed::next(int64_t n) const {
  const NoGrad guard;
  check(n >= 1 && n <= largest_, "data::Feed: expected 1 to {} examples, got {}", largest_, n);
  const Tensor places = add(slice(ramp_, 0, 0, n), at_);
  const auto part = [&](const Tensor& all) { return index_select(all, 0, places); };
  Batch batch = state_->gather(part(order_), parameters_, part);
  add_(at_, select(ramp_, 0, n));
  return batch;
}

}  // namespace mica::data
