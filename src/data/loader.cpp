#include "mica/data/loader.h"

#include <algorithm>
#include <numeric>

#include "mica/core/check.h"
#include "mica/core/range.h"
#include "mica/data/loader_state.h"
#include "mica/ops/copy/copy.h"
#include "mica/ops/elementwise/elementwise.h"
#include "mica/ops/fill/fill.h"
#include "mica/ops/random/random.h"
#include "mica/ops/view/view.h"

namespace mica::data {
namespace {

/// What is gathered and moved to a device at once where nothing else is done with it, so that a
/// device waits for the host only so often.
constexpr int64_t kChunkExamples = 4096;

/// The whole data set as one batch on a device.
Batch whole(const Dataset& dataset, Device device) {
  if (const Values* all = dataset.impl()->tensors()) return moved(*all, device);
  std::vector<int64_t> indices(static_cast<size_t>(dataset.size()));
  std::iota(indices.begin(), indices.end(), 0);
  return moved(dataset.impl()->gather(indices), device);
}

void check_options(const LoaderOptions& options) {
  check(options.batch >= 1, "data::Loader: batch must be at least 1, got {}", options.batch);
  constexpr int kMostWorkers = 1024;
  check(options.workers >= 0 && options.workers <= kMostWorkers,
        "data::Loader: expected 0 to {} workers, got {}", kMostWorkers, options.workers);
  check(options.prefetch >= 1, "data::Loader: prefetch must be at least 1, got {}",
        options.prefetch);
  const int orders =
      (options.shuffle ? 1 : 0) + (options.sampler ? 1 : 0) + (options.batch_sampler ? 1 : 0);
  check(orders <= 1, "data::Loader: shuffle, sampler and batch_sampler exclude each other");
  const auto& [rank, ranks, every] = options.shard;
  check(ranks >= 1 && rank >= 0 && rank < ranks,
        "data::Loader: a shard has a rank below the number of ranks, got {} of {}", rank, ranks);
  check(options.batch >= ranks || options.batch_sampler,
        "data::Loader: a batch of {} has no part for each of {} ranks", options.batch, ranks);
}

/// Batches of so many examples; of kUnknownSize the same.
int64_t batches_of(int64_t examples, const LoaderOptions& options) {
  if (examples == kUnknownSize) return kUnknownSize;
  const int64_t rest = options.drop_last ? 0 : options.batch - 1;
  return (examples + rest) / options.batch;
}

/// Those that come of so many.
int64_t examples_of(int64_t examples, const LoaderOptions& options) {
  if (examples == kUnknownSize || !options.drop_last) return examples;
  return examples / options.batch * options.batch;
}

/// What of an order comes in a shard.
EpochOrder shard_of(const EpochOrder& all, const LoaderState& state, Device device) {
  const auto& [rank, ranks, every] = state.options.shard;
  EpochOrder part = {.indices = {}, .batch = all.batch};
  for (int64_t i = 0; i < all.batches(); ++i) {
    const int64_t whole = all.size_of(i);
    check(whole >= ranks || every || !state.options.batch_sampler,
          "data::Loader: batch {} of the batch_sampler has {} examples, and no part for each of {} "
          "ranks",
          i, whole, ranks);
    const auto [begin, end] = state.part_of(all.begin_of(i), all.begin_of(i + 1));
    if (begin == end || (whole < ranks && !every)) continue;
    for (int64_t place = begin; place < end; ++place) part.places.push_back(place);
    part.ends.push_back(static_cast<int64_t>(part.places.size()));
    part.wholes.push_back(whole);
  }
  const std::span<const int64_t> places(part.places);
  const Tensor where = tensor(places, {static_cast<int64_t>(places.size())});
  part.indices = index_select(all.indices, 0, to(where, device));
  return part;
}

/// The batches and examples of a shard, where those of all of them are known.
void count_part(LoaderState& state) {
  const auto& [rank, ranks, every] = state.options.shard;
  if (ranks == 1 || state.examples == kUnknownSize) return;
  const int64_t all = std::exchange(state.examples, 0);
  state.batches = 0;
  for (int64_t at = 0; at < all; at += state.options.batch) {
    const int64_t n = std::min(state.options.batch, all - at);
    const auto [begin, end] = state.part_of(0, n);
    const int64_t own = state.stream ? (n + ranks - 1 - rank) / ranks : end - begin;
    if (own == 0 || (n < ranks && !every)) continue;
    state.batches += 1;
    state.examples += own;
  }
}

Tensor checked(const std::vector<int64_t>& chosen, int64_t expected, int64_t size) {
  const auto count = static_cast<int64_t>(chosen.size());
  check(expected == kUnknownSize || count == expected,
        "data::Sampler: expected {} numbers for an epoch, got {}", expected, count);
  for (const int64_t i : chosen)
    check<IndexError>(i >= 0 && i < size, "data::Sampler: no example {} in a set of {}", i, size);
  return tensor(std::span<const int64_t>(chosen), {count});
}

}  // namespace

Tensor as_floats(const Tensor& x) {
  return x.dtype() == DType::u8 ? div(cast(x, DType::f32), 255) : x;
}

Batch moved(const Batch& batch, Device device) {
  return map_leaves(batch, [&](const Tensor& t) { return to(t, device); });
}

EpochOrder LoaderState::order(int64_t epoch, Device device) const {
  EpochOrder order = {.indices = {}, .batch = options.batch};
  if (options.batch_sampler) {
    std::vector<int64_t> chosen;
    const auto all = options.batch_sampler->batches(epoch);
    const int64_t expected = options.batch_sampler->size;
    check(expected == kUnknownSize || static_cast<int64_t>(all.size()) == expected,
          "data::BatchSampler: expected {} batches for an epoch, got {}", expected, all.size());
    for (const std::vector<int64_t>& batch : all) {
      check(!batch.empty(), "data::BatchSampler: a batch has no examples");
      chosen.insert(chosen.end(), batch.begin(), batch.end());
      order.ends.push_back(static_cast<int64_t>(chosen.size()));
    }
    order.indices = to(checked(chosen, kUnknownSize, dataset_size), device);
  } else if (options.sampler) {
    const Tensor chosen =
        checked(options.sampler->order(epoch), options.sampler->size, dataset_size);
    order.indices = to(slice(chosen, 0, 0, examples_of(chosen.numel(), options)), device);
  } else if (options.shuffle) {
    order.indices = slice(seeded_randperm(dataset_size, *options.shuffle, epoch, device), 0, 0,
                          examples_of(dataset_size, options));
  } else {
    order.indices = to(arange(examples_of(dataset_size, options)), device);
  }
  return is_part() ? shard_of(order, *this, device) : order;
}

std::vector<int64_t> LoaderState::numbers(const EpochOrder& order, int64_t begin,
                                          int64_t end) const {
  std::vector<int64_t> numbers(static_cast<size_t>(end - begin));
  if (is_sampled() && is_part()) {
    std::copy(order.places.begin() + begin, order.places.begin() + end, numbers.begin());
  } else if (is_sampled()) {
    std::iota(numbers.begin(), numbers.end(), begin);
  } else {
    const auto* indices = order.indices.data_as<int64_t>();
    std::copy(indices + begin, indices + end, numbers.begin());
  }
  return numbers;
}

Tensors LoaderState::parameters(int64_t epoch, const EpochOrder& order) const {
  Tensors all;
  if (options.augment.empty()) return all;
  const EpochOrder host = {to(order.indices, Device::cpu()), order.batch, order.ends};
  const std::vector<int64_t> drawn_by = numbers(host, 0, host.examples());
  for (size_t i = 0; i < options.augment.size(); ++i) {
    const Tensor drawn = options.augment[i].draw(drawn_by, random(epoch, i));
    all.push_back(drawn.defined() ? to(drawn, options.device) : drawn);
  }
  return all;
}

Batch LoaderState::finished(const Batch& batch, std::span<const int64_t> numbers,
                            int64_t epoch) const {
  return transformed(batch, options, [&](size_t i) {
    const Tensor drawn = options.augment[i].draw(numbers, random(epoch, i));
    return drawn.defined() ? to(drawn, flatten(batch)[0].device()) : drawn;
  });
}

constexpr const char* kNextBatch = "next batch";  // in a profile

Epoch::Epoch(std::shared_ptr<BatchWalk> walk) : walk_(std::move(walk)) {}
Epoch::Epoch(Epoch&& other) noexcept = default;
Epoch& Epoch::operator=(Epoch&& other) noexcept = default;
Epoch::~Epoch() = default;

Epoch::Iterator Epoch::begin() {
  const Range range(kNextBatch, RangeKind::data);
  walk_->prepare();
  return Iterator(this);
}

std::optional<Batch> Epoch::next() {
  const Range range(kNextBatch, RangeKind::data);
  if (std::exchange(given_, false) && !walk_->done()) walk_->next();
  walk_->prepare();
  if (walk_->done()) return {};
  given_ = true;
  return walk_->batch();
}

int64_t Epoch::whole_batch() const { return walk_->whole(); }
bool Epoch::stop() { return walk_->stop(); }
bool Epoch::is_making(const void* id) { return Making::is_making(id); }

Batch Epoch::Iterator::operator*() const {
  const Range range(kNextBatch, RangeKind::data);
  return epoch_->walk_->batch();
}

Epoch::Iterator& Epoch::Iterator::operator++() {
  const Range range(kNextBatch, RangeKind::data);
  epoch_->walk_->next();
  epoch_->walk_->prepare();
  return *this;
}

bool Epoch::Iterator::operator==(std::default_sentinel_t) const { return epoch_->walk_->done(); }

Loader::Loader(Dataset dataset, LoaderOptions options) {
  check_options(options);
  auto state = std::make_shared<LoaderState>(std::move(dataset));
  state->options = std::move(options);
  const LoaderOptions& o = state->options;
  state->dataset_size = state->dataset.size();
  if (o.batch_sampler) {
    state->batches = o.shard.every ? kUnknownSize : o.batch_sampler->size;
    state->examples = kUnknownSize;
  } else {
    const int64_t all = o.sampler ? o.sampler->size : state->dataset_size;
    state->batches = batches_of(all, o);
    state->examples = examples_of(all, o);
    count_part(*state);
  }
  const Values* tensors = state->dataset.impl()->tensors();
  const bool only_gathered =
      tensors && flatten(*tensors)[0].dtype() != DType::u8 && o.augment.empty();
  if (only_gathered && !o.resident && !o.batch_sampler && !state->is_part())
    state->batches_per_piece = std::max<int64_t>(1, kChunkExamples / o.batch);
  if (o.resident && state->dataset_size > 0) state->resident = whole(state->dataset, o.device);
  state_ = std::move(state);
}

Loader::Loader(Stream stream, LoaderOptions options) {
  check_options(options);
  check<Unsupported>(!options.resident,
                     "data::Loader: a stream cannot be resident: its examples "
                     "come one after the other");
  check(!options.shuffle && !options.sampler && !options.batch_sampler,
        "data::Loader: a stream has its own order, without shuffle and samplers; Stream::shuffle "
        "changes it within a buffer");
  auto state = std::make_shared<LoaderState>(Dataset(nullptr), std::move(stream));
  state->options = std::move(options);
  const int64_t size = state->stream->size();
  state->batches = batches_of(size, state->options);
  state->examples = examples_of(size, state->options);
  count_part(*state);
  state_ = std::move(state);
}

int64_t Loader::size() const { return state_->batches; }
int64_t Loader::examples() const { return state_->examples; }

bool Loader::is_stream() const { return state_->stream.has_value(); }
const LoaderOptions& Loader::options() const { return state_->options; }

const Dataset& Loader::dataset() const {
  check<Unsupported>(!is_stream(), "data::Loader: a stream has no data set");
  return state_->dataset;
}

const Stream& Loader::stream() const {
  check<Unsupported>(is_stream(), "data::Loader: it walks over a data set, not a stream");
  return *state_->stream;
}

const std::vector<std::string>& Loader::class_names() const {
  return is_stream() ? state_->stream->class_names() : state_->dataset.class_names();
}

std::vector<int64_t> Loader::order(int64_t epoch) const {
  check<Unsupported>(!is_stream(), "data::Loader: a stream knows no order in advance");
  return state_->order(epoch, Device::cpu()).indices.to_vector<int64_t>();
}

Epoch Loader::epoch(int64_t epoch, int64_t first_batch) const {
  check(epoch >= 0 && first_batch >= 0 && (first_batch <= size() || size() == kUnknownSize),
        "data::Loader: expected an epoch and a batch up to {}, got {} and {}", size(), epoch,
        first_batch);
  return Epoch(is_stream() ? walk_stream(state_, epoch, first_batch)
                           : walk_dataset(state_, epoch, first_batch));
}

}  // namespace mica::data
