// The batches of a data set.
#include <algorithm>

#include "mica/autograd/autograd.h"
#include "mica/data/loader_state.h"
#include "mica/data/worker_pool.h"
#include "mica/ops/view/view.h"

namespace mica::data {
namespace {

/// Pieces of an epoch, one after the other. Which batches are in a piece does not depend on where
/// the walk begins, so a batch always lies alike in memory.
class DatasetWalk final : public BatchWalk {
 public:
  DatasetWalk(std::shared_ptr<const LoaderState> state, int64_t epoch, int64_t first_batch)
      : state_(std::move(state)), epoch_(epoch), at_(first_batch) {
    const LoaderOptions& options = state_->options;
    // What is resident is picked and changed there: all that takes goes there before the first
    // batch.
    const NoGrad guard;
    order_ = state_->order(epoch, options.resident ? options.device : Device::cpu());
    if (done()) return;
    if (options.resident) {
      parameters_ = state_->parameters(epoch, order_);
    } else if (options.workers > 0) {
      const int64_t per_piece = state_->batches_per_piece;
      const int64_t pieces = (order_.batches() + per_piece - 1) / per_piece;
      const int64_t ahead = std::max<int64_t>((options.prefetch + per_piece - 1) / per_piece, 1);
      pool_ = std::make_unique<WorkerPool>(
          static_cast<int>(std::min<int64_t>(options.workers, ahead)),
          worker_seed(options.shuffle.value_or(0), epoch), at_ / per_piece, pieces, ahead,
          [this](int64_t piece) { return make(piece); });
    }
  }

  ~DatasetWalk() override {
    if (pool_ && pool_->forked()) (void)pool_.release();
  }
  DatasetWalk(const DatasetWalk&) = delete;
  DatasetWalk& operator=(const DatasetWalk&) = delete;

  bool done() const override { return at_ >= order_.batches(); }
  bool stop() override { return !pool_ || pool_->forked() || pool_->stop(); }

  void next() override {
    ++at_;
    started_ = started_ && at_ % state_->batches_per_piece != 0;
  }

  void prepare() override {
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

  int64_t whole() const override { return order_.whole_of(at_); }

  Batch batch() const override {
    const int64_t per_piece = state_->batches_per_piece;
    if (per_piece == 1) return piece_;
    const int64_t begin = at_ % per_piece * state_->options.batch;
    return map_leaves(piece_, [&](const Tensor& t) {
      return slice(t, 0, begin, std::min(begin + state_->options.batch, t.size(0)));
    });
  }

 private:
  int64_t begin_of(int64_t piece) const {
    return order_.begin_of(std::min(piece * state_->batches_per_piece, order_.batches()));
  }

  /// In any thread: a piece on the CPU.
  Batch make(int64_t piece) const {
    const Making making(this);
    const NoGrad guard;
    const int64_t begin = begin_of(piece);
    const int64_t end = begin_of(piece + 1);
    const std::span indices(order_.indices.data_as<int64_t>() + begin,
                            static_cast<size_t>(end - begin));
    return state_->finished(state_->dataset.impl()->gather(indices),
                            state_->numbers(order_, begin, end), epoch_);
  }

  /// A piece of what is resident.
  Batch gather(int64_t piece) const {
    const int64_t begin = begin_of(piece);
    const int64_t end = begin_of(piece + 1);
    const auto part = [&](const Tensor& all) { return slice(all, 0, begin, end); };
    return state_->gather(part(order_.indices), parameters_, part);
  }

  std::shared_ptr<const LoaderState> state_;
  int64_t epoch_;
  int64_t at_;  ///< batch
  EpochOrder order_;
  Tensors parameters_;    ///< of each transform, in that order, where the data set is resident
  bool started_ = false;  ///< piece_ holds the batch
  Batch piece_;
  std::unique_ptr<WorkerPool> pool_;  ///< last: its threads use the rest
};

}  // namespace

std::unique_ptr<BatchWalk> walk_dataset(std::shared_ptr<const LoaderState> state, int64_t epoch,
                                        int64_t first_batch) {
  return std::make_unique<DatasetWalk>(std::move(state), epoch, first_batch);
}

}  // namespace mica::data
