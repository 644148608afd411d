#include "mica/data/loader.h"

#include <algorithm>
#include <numeric>

#include "mica/autograd/autograd.h"
#include "mica/core/check.h"
#include "mica/core/values_check.h"
#include "mica/data/worker_pool.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/gather/gather.h"
#include "mica/ops/random/random.h"
#include "mica/ops/view/view.h"

namespace mica::data {
namespace {

/// What is gathered and moved to a device at once where nothing else is done with it, so that a
/// device waits for the host only so often.
constexpr int64_t kChunkExamples = 4096;

Tensor as_floats(const Tensor& x) {
  return x.dtype() == DType::u8 ? div(cast(x, DType::f32), 255) : x;
}

/// The walks that this thread makes a batch of, the innermost first: a data set may walk over
/// another.
struct Making {
  const void* walk;
  const Making* outer;
};
thread_local const Making* t_making = nullptr;

/// The batch with f(x) for its first tensor, x.
template <class F>
Batch with_first(const Batch& batch, F&& f) {
  bool first = true;
  return map_leaves(batch, [&](const Tensor& t) { return std::exchange(first, false) ? f(t) : t; });
}

Batch moved(const Batch& batch, Device device) {
  return map_leaves(batch, [&](const Tensor& t) { return to(t, device); });
}

/// The whole data set as one batch on a device.
Batch whole(const Dataset& dataset, Device device) {
  if (const Values* all = dataset.impl()->tensors()) return moved(*all, device);
  std::vector<int64_t> indices(static_cast<size_t>(dataset.size()));
  std::iota(indices.begin(), indices.end(), 0);
  return moved(dataset.impl()->gather(indices), device);
}

}  // namespace

struct Loader::State {
  Dataset dataset;
  LoaderOptions options;
  int64_t dataset_size = 0;
  int64_t examples = 0;  ///< in an epoch, N
  int64_t batches = 0;
  /// In a piece, which is made and moved to the device at once.
  int64_t batches_per_piece = 1;
  Batch resident = {};  ///< the data set on the device

  /// (N) i64: the numbers of the examples as they come in an epoch.
  Tensor order(int64_t epoch, Device device) const {
    if (!options.shuffle) return to(arange(examples), device);
    return slice(seeded_randperm(dataset_size, *options.shuffle, epoch, device), 0, 0, examples);
  }
  RandomStream stream(int64_t epoch, size_t position) const {
    return {options.shuffle.value_or(0), epoch, static_cast<int64_t>(position)};
  }
  /// Of each transform for a whole epoch, (N, k) in its order, on the device; undefined where it
  /// has none.
  Tensors parameters(int64_t epoch) const {
    Tensors all;
    if (options.augment.empty()) return all;
    const Tensor order = this->order(epoch, Device::cpu());
    const std::span indices(order.data_as<int64_t>(), static_cast<size_t>(examples));
    for (size_t i = 0; i < options.augment.size(); ++i) {
      const Tensor drawn = options.augment[i].draw(indices, stream(epoch, i));
      all.push_back(drawn.defined() ? to(drawn, options.device) : drawn);
    }
    return all;
  }
  /// Of what is resident: the examples at `indices`, with transforms whose parameters `of` picks.
  template <class Pick>
  Batch gather(const Tensor& indices, const Tensors& all_parameters, Pick&& of) const {
    const Batch rows =
        map_leaves(resident, [&](const Tensor& t) { return index_select(t, 0, indices); });
    return with_first(rows, [&](const Tensor& pixels) {
      Tensor x = as_floats(pixels);
      for (size_t i = 0; i < options.augment.size(); ++i) {
        const Tensor& all = all_parameters[i];
        x = options.augment[i].apply(x, all.defined() ? of(all) : all);
      }
      return x;
    });
  }
};

/// Pieces of an epoch, one after the other. Which batches are in a piece does not depend on where
/// the walk begins, so a batch always lies alike in memory.
class Epoch::Walk {
 public:
  Walk(std::shared_ptr<const Loader::State> state, int64_t epoch, int64_t first_batch)
      : state_(std::move(state)), epoch_(epoch), at_(first_batch) {
    const LoaderOptions& options = state_->options;
    if (done()) return;
    // What is resident is picked and changed there: all that takes goes there before the first
    // batch.
    const NoGrad guard;
    order_ = state_->order(epoch, options.resident ? options.device : Device::cpu());
    if (options.resident) {
      parameters_ = state_->parameters(epoch);
    } else if (options.workers > 0) {
      const int64_t per_piece = state_->batches_per_piece;
      const int64_t pieces = (state_->batches + per_piece - 1) / per_piece;
      const int64_t ahead = std::max<int64_t>((options.prefetch + per_piece - 1) / per_piece, 1);
      pool_ = std::make_unique<WorkerPool>(
          static_cast<int>(std::min<int64_t>(options.workers, ahead)), at_ / per_piece, pieces,
          ahead, [this](int64_t piece) { return make(piece); });
    }
  }

  ~Walk() {
    if (pool_ && pool_->forked()) (void)pool_.release();
  }
  Walk(const Walk&) = delete;
  Walk& operator=(const Walk&) = delete;

  bool done() const { return at_ >= state_->batches; }
  bool stop() { return !pool_ || pool_->forked() || pool_->stop(); }

  void next() {
    ++at_;
    started_ = started_ && at_ % state_->batches_per_piece != 0;
  }

  /// Has the piece of the batch that the walk is at.
  void prepare() {
    if (started_ || done()) return;
    const NoGrad guard;
    const int64_t piece = at_ / state_->batches_per_piece;
    try {
      const Batch made = pool_                      ? pool_->take()
                         : state_->options.resident ? gather(piece)
                                                    : make(piece);
      piece_ = moved(made, state_->options.device);
    } catch (...) {
      // Past what cannot be made; an interruption while it waited for a worker loses nothing.
      if (!pool_ || pool_->taken() > piece) at_ = (piece + 1) * state_->batches_per_piece;
      throw;
    }
    started_ = true;
  }

  Batch batch() const {
    const int64_t per_piece = state_->batches_per_piece;
    if (per_piece == 1) return piece_;
    const int64_t begin = at_ % per_piece * state_->options.batch;
    return map_leaves(piece_, [&](const Tensor& t) {
      return slice(t, 0, begin, std::min(begin + state_->options.batch, t.size(0)));
    });
  }

 private:
  int64_t begin_of(int64_t piece) const {
    return std::min(piece * state_->batches_per_piece * state_->options.batch, state_->examples);
  }

  /// In any thread: a piece on the CPU.
  Batch make(int64_t piece) const {
    const Making here{this, t_making};
    t_making = &here;
    const struct Leave {
      ~Leave() { t_making = t_making->outer; }
    } leave;
    const NoGrad guard;
    const int64_t begin = begin_of(piece);
    const std::span indices(order_.data_as<int64_t>() + begin,
                            static_cast<size_t>(begin_of(piece + 1) - begin));
    return with_first(state_->dataset.impl()->gather(indices), [&](const Tensor& pixels) {
      Tensor x = as_floats(pixels);
      const auto& augment = state_->options.augment;
      for (size_t i = 0; i < augment.size(); ++i)
        x = augment[i](x, indices, state_->stream(epoch_, i));
      return x;
    });
  }

  /// A piece of what is resident.
  Batch gather(int64_t piece) const {
    const int64_t begin = begin_of(piece);
    const int64_t end = begin_of(piece + 1);
    const auto part = [&](const Tensor& all) { return slice(all, 0, begin, end); };
    return state_->gather(part(order_), parameters_, part);
  }

  std::shared_ptr<const Loader::State> state_;
  int64_t epoch_;
  int64_t at_;            ///< batch
  Tensor order_;          ///< (N) i64
  Tensors parameters_;    ///< of each transform, in that order, where the data set is resident
  bool started_ = false;  ///< piece_ holds the batch
  Batch piece_;
  std::unique_ptr<WorkerPool> pool_;  ///< last: its threads use the rest
};

Epoch::Epoch(std::unique_ptr<Walk> walk) : walk_(std::move(walk)) {}
Epoch::Epoch(Epoch&& other) noexcept = default;
Epoch& Epoch::operator=(Epoch&& other) noexcept = default;
Epoch::~Epoch() = default;

Epoch::Iterator Epoch::begin() {
  walk_->prepare();
  return Iterator(this);
}

bool Epoch::stop() { return walk_->stop(); }

bool Epoch::is_making(const void* id) {
  for (const Making* at = t_making; at; at = at->outer)
    if (at->walk == id) return true;
  return false;
}

Batch Epoch::Iterator::operator*() const { return epoch_->walk_->batch(); }

Epoch::Iterator& Epoch::Iterator::operator++() {
  epoch_->walk_->next();
  epoch_->walk_->prepare();
  return *this;
}

bool Epoch::Iterator::operator==(std::default_sentinel_t) const { return epoch_->walk_->done(); }

Loader::Loader(Dataset dataset, LoaderOptions options) {
  check(options.batch >= 1, "data::Loader: batch must be at least 1, got {}", options.batch);
  constexpr int kMostWorkers = 1024;
  check(options.workers >= 0 && options.workers <= kMostWorkers,
        "data::Loader: expected 0 to {} workers, got {}", kMostWorkers, options.workers);
  check(options.prefetch >= 1, "data::Loader: prefetch must be at least 1, got {}",
        options.prefetch);
  auto state = std::make_shared<State>(std::move(dataset), std::move(options));
  const int64_t batch = state->options.batch;
  state->dataset_size = state->dataset.size();
  state->batches = state->dataset_size / batch;
  state->examples = state->batches * batch;
  if (!state->options.drop_last && state->examples < state->dataset_size) {
    state->batches += 1;
    state->examples = state->dataset_size;
  }
  const Values* tensors = state->dataset.impl()->tensors();
  const bool only_gathered =
      tensors && flatten(*tensors)[0].dtype() != DType::u8 && state->options.augment.empty();
  if (only_gathered && !state->options.resident)
    state->batches_per_piece = std::max<int64_t>(1, kChunkExamples / batch);
  if (state->options.resident && state->examples > 0)
    state->resident = whole(state->dataset, state->options.device);
  state_ = std::move(state);
}

int64_t Loader::size() const { return state_->batches; }
int64_t Loader::examples() const { return state_->examples; }
const Dataset& Loader::dataset() const { return state_->dataset; }
const LoaderOptions& Loader::options() const { return state_->options; }

Epoch Loader::epoch(int64_t epoch, int64_t first_batch) const {
  check(epoch >= 0 && first_batch >= 0 && first_batch <= size(),
        "data::Loader: expected an epoch and a batch up to {}, got {} and {}", size(), epoch,
        first_batch);
  return Epoch(std::make_unique<Epoch::Walk>(state_, epoch, first_batch));
}

Feed::Feed(const Loader& loader) : state_(loader.state_) {
  const LoaderOptions& o = state_->options;
  check(o.resident, "data::Feed: expected a loader whose data set is resident");
  const TensorOptions count = {.dtype = DType::i64, .device = o.device};
  order_ = zeros({state_->examples}, count);
  parameters_ = state_->parameters(0);
  ramp_ = to(arange(o.batch + 1), o.device);
  at_ = zeros({}, count);
}

void Feed::start(int64_t epoch, int64_t first_batch) {
  const NoGrad guard;
  // In place: a function captured before knows where they lie.
  copy_(order_, state_->order(epoch, state_->options.device));
  const Tensors drawn = state_->parameters(epoch);
  for (size_t i = 0; i < drawn.size(); ++i)
    if (drawn[i].defined()) copy_(parameters_[i], drawn[i]);
  fill_(at_, static_cast<double>(first_batch * state_->options.batch));
}

Batch Feed::next(int64_t n) const {
  const NoGrad guard;
  check(n >= 1 && n <= state_->options.batch, "data::Feed: expected 1 to {} examples, got {}",
        state_->options.batch, n);
  const Tensor places = add(slice(ramp_, 0, 0, n), at_);
  const auto part = [&](const Tensor& all) { return index_select(all, 0, places); };
  Batch batch = state_->gather(part(order_), parameters_, part);
  add_(at_, select(ramp_, 0, n));
  return batch;
}

}  // namespace mica::data
