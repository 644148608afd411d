// The batches of a stream.
#include "mica/autograd/autograd.h"
#include "mica/data/loader_state.h"
#include "mica/data/stream_workers.h"
#include "mica/data/worker_info.h"

namespace mica::data {
namespace {

/// The batches of one part, one after the other.
class PartBatches {
 public:
  PartBatches(std::shared_ptr<const LoaderState> state, const void* walk, const StreamPart& part)
      : state_(std::move(state)), walk_(walk), part_(part) {}

  /// How many parts there are; opens this one.
  int64_t parts() {
    const Making making(walk_);
    if (!reader_) reader_ = state_->stream->open(part_);
    const int64_t parts = reader_->parts();
    if (parts == 1) part_.count = 1;
    return parts;
  }

  /// None at the end. What raises has taken the examples of its batch with it.
  std::optional<StreamBatch> next() {
    const int64_t parts = this->parts();
    const Making making(walk_);
    const NoGrad guard;
    const LoaderOptions& o = state_->options;
    const auto& [rank, ranks, every] = o.shard;
    std::vector<Example> examples;
    std::vector<int64_t> numbers;
    int64_t whole = 0;
    for (; whole < o.batch; ++whole) {
      const int64_t number = read_++ * parts + part_.index;
      if (whole % ranks != rank) {
        if (!reader_->skip()) break;
        continue;
      }
      std::optional<Example> example = reader_->next();
      if (!example) break;
      examples.push_back(std::move(*example));
      numbers.push_back(number);
    }
    const bool dropped = whole < o.batch && (o.drop_last || (whole < ranks && !every));
    if (examples.empty() || dropped) return {};
    return StreamBatch{
        state_->finished(state_->stream->impl()->collate(std::move(examples), numbers), numbers,
                         part_.epoch),
        whole};
  }

 private:
  std::shared_ptr<const LoaderState> state_;
  const void* walk_;
  StreamPart part_;
  std::unique_ptr<StreamReader> reader_;
  int64_t read_ = 0;
};

class StreamWalk final : public BatchWalk {
 public:
  StreamWalk(std::shared_ptr<const LoaderState> state, int64_t epoch, int64_t first_batch)
      : state_(std::move(state)), skip_(first_batch) {
    const LoaderOptions& options = state_->options;
    const auto open = [this, epoch](int64_t index, int64_t count) {
      return PartBatches(state_, this, {epoch, index, count});
    };
    if (options.workers == 0) {
      alone_.emplace(open(0, 1));
      return;
    }
    workers_ = std::make_unique<StreamWorkers>(
        options.workers, worker_seed(0, epoch), options.prefetch,
        [open](int64_t index, int64_t count) -> StreamWorkers::Lane {
          const auto part = std::make_shared<PartBatches>(open(index, count));
          return {.parts = part->parts(), .next = [part] { return part->next(); }};
        });
  }
  ~StreamWalk() override {
    if (workers_ && workers_->forked()) (void)workers_.release();
  }
  StreamWalk(const StreamWalk&) = delete;
  StreamWalk& operator=(const StreamWalk&) = delete;

  bool done() const override { return ended_; }
  bool stop() override { return !workers_ || workers_->forked() || workers_->stop(); }
  void next() override { batch_.reset(); }

  void prepare() override {
    if (batch_ || ended_) return;
    const NoGrad guard;
    while (skip_ > 0 && !ended_) {
      --skip_;
      ended_ = !take();
    }
    if (ended_) return;
    const std::optional<StreamBatch> made = take();
    ended_ = !made;
    if (!made) return;
    batch_ = moved(made->batch, state_->options.device);
    whole_ = made->whole;
  }

  Batch batch() const override { return *batch_; }
  int64_t whole() const override { return whole_; }

 private:
  std::optional<StreamBatch> take() { return workers_ ? workers_->take() : alone_->next(); }

  std::shared_ptr<const LoaderState> state_;
  int64_t skip_;  ///< batches that are still to be read and dropped
  std::optional<PartBatches> alone_;
  std::optional<Batch> batch_;
  int64_t whole_ = 0;
  bool ended_ = false;
  std::unique_ptr<StreamWorkers> workers_;  ///< last: its threads use the rest
};

}  // namespace

std::unique_ptr<BatchWalk> walk_stream(std::shared_ptr<const LoaderState> state, int64_t epoch,
                                       int64_t first_batch) {
  return std::make_unique<StreamWalk>(std::move(state), epoch, first_batch);
}

}  // namespace mica::data
