#pragma once

#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mica/data/dataset.h"
#include "mica/data/sampler.h"
#include "mica/data/stream.h"
#include "mica/data/transforms.h"

namespace mica::data {

class BatchWalk;
struct LoaderState;

/// Which part of every batch is this process's.
struct Shard {
  int64_t rank = 0;
  int64_t ranks = 1;
  /// Also of batches with fewer examples than ranks, which come to some of them alone: for what is
  /// only added up, as in an evaluation.
  bool every = false;
};

struct LoaderOptions {
  int64_t batch = 64;
  std::optional<uint64_t> shuffle = {};  ///< seed of the order; without it, the data set's own
  /// Which examples come, in place of all of them in the order of `shuffle`.
  std::optional<Sampler> sampler = {};
  /// The same by batches, in place of `batch`, `shuffle` and `drop_last` too.
  std::optional<BatchSampler> batch_sampler = {};
  bool drop_last = false;  ///< an epoch ends before a batch that would be smaller
  /// Threads that prepare batches beside the caller's. Of a stream each reads a part, or one all of
  /// it where it is not split.
  int workers = 0;
  int64_t prefetch = 2;  ///< batches that they prepare ahead
  Device device = {};
  /// Of each batch's first tensor; their seed is that of the order.
  std::vector<Transform> augment = {};
  /// A batch's second tensor is the classes of pixels (n, H, W) i64, which move with the images.
  bool masks = false;
  /// The whole data set lies on the device, where batches are gathered and transformed without the
  /// host. Workers have nothing to do then.
  bool resident = false;
  /// Of several processes that load alike, each gets its part of every batch: all parts together,
  /// in the order of the ranks, are the batch of one process, to the bit. They differ by at most
  /// one example; a last batch with fewer examples than ranks does not come, one of a batch sampler
  /// is an error. Of a stream, example i of a batch is rank i % ranks's: each process reads all of
  /// it and makes batches of its own.
  Shard shard = {};
};

/// One walk over the batches of an epoch. It keeps what it walks over, ends its threads when it
/// goes, and can be walked once.
class Epoch {
 public:
  Epoch(Epoch&& other) noexcept;
  Epoch& operator=(Epoch&& other) noexcept;
  ~Epoch();

  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;

    Batch operator*() const;
    Iterator& operator++();
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const;

   private:
    friend class Epoch;
    explicit Iterator(Epoch* epoch) : epoch_(epoch) {}
    Epoch* epoch_;
  };

  /// Where the walk is. This and ++ raise what went wrong with the batch they come to; the walk is
  /// then at the one after it, and begin() goes on there.
  Iterator begin();
  std::default_sentinel_t end() const { return {}; }
  /// The next batch, or none at the end: for a walk that is left and gone on with.
  std::optional<Batch> next();
  /// Examples of the batch that the walk is at, in all shards together.
  int64_t whole_batch() const;

  /// Workers begin no more batches. Whether none is in progress: the destructor does not wait then.
  bool stop();

  /// What is_making asks for; stays when the epoch is moved.
  const void* id() const { return walk_.get(); }
  /// Whether the calling thread makes a batch of that epoch at the moment: it must not wait for
  /// one.
  static bool is_making(const void* id);

 private:
  friend class Loader;
  explicit Epoch(std::shared_ptr<BatchWalk> walk);
  std::shared_ptr<BatchWalk> walk_;
  bool given_ = false;  ///< by next(): the batch that the walk is at
};

/// Batches of a data set or a stream on a device:
///
///     const data::Loader loader(train, {.batch = 64, .shuffle = seed, .augment = {data::flip()}});
///     for (const auto& [x, y] : loader.epoch(3)) …
///
/// A batch depends on the data set, its own number, the epoch, `batch`, `shuffle` and `augment`
/// alone: not on workers, on where the walk began or on `resident` (transforms that are more than
/// copies and single roundings, rotate and color_jitter, differ between the CPU and CUDA in the
/// last bits). Each example comes once in an epoch; the last batch may be smaller, unless it is
/// dropped: then those that come last in the epoch's order do not come. A batch's first tensor, x,
/// is taken for pixels where its dtype is u8, and becomes f32 in [0, 1].
///
/// Of a stream, batches come from its parts in turn, whose number is that of the workers, at least
/// one: they depend on it where the stream is split. Example i of part p has the running number
/// i * parts + p. A walk that begins at a later batch reads and drops those before.
class Loader {
 public:
  Loader(Dataset dataset, LoaderOptions options = {});
  Loader(Stream stream, LoaderOptions options = {});

  /// Batches in an epoch; kUnknownSize where only the walk tells.
  int64_t size() const;
  /// Examples in an epoch, likewise.
  int64_t examples() const;
  bool is_stream() const;
  /// Raises Unsupported where it is a stream.
  const Dataset& dataset() const;
  /// Raises Unsupported where it is none.
  const Stream& stream() const;
  const std::vector<std::string>& class_names() const;
  /// The numbers of the examples of an epoch, as they come.
  std::vector<int64_t> order(int64_t epoch) const;
  const LoaderOptions& options() const;
  /// No walk, feed or copy shares what it is made of.
  bool is_alone() const { return state_.use_count() == 1; }

  /// The batches from `first_batch` on; those before are not prepared.
  Epoch epoch(int64_t epoch, int64_t first_batch = 0) const;

 private:
  friend class Feed;
  std::shared_ptr<const LoaderState> state_;
};

/// The batches of a resident loader, for a compiled function that takes them itself:
///
///     data::Feed feed(loader);
///     auto step = compile([&] { const auto [x, y] = feed.next(64); … });
///     feed.start(0);
///     step.repeat(100);
///
/// The order of the epoch and the place in it lie in device memory: each replay goes on where the
/// last one ended. The batches are the loader's, bit for bit.
class Feed {
 public:
  /// Raises where the loader is not resident, or how large its epochs are is not known.
  explicit Feed(const Loader& loader);
  static bool is_possible(const Loader& loader);

  /// What comes next is this batch of this epoch.
  void start(int64_t epoch, int64_t first_batch = 0);
  /// How many batches the epoch has that was started, and examples each of them.
  int64_t batches() const { return static_cast<int64_t>(sizes_.size()); }
  int64_t size_of(int64_t batch) const { return sizes_.at(static_cast<size_t>(batch)); }
  /// The same in all shards together.
  int64_t whole_batch(int64_t batch) const { return wholes_.at(static_cast<size_t>(batch)); }
  /// The next n examples, at most a batch; the caller knows how many are left.
  Batch next(int64_t n) const;

 private:
  std::shared_ptr<const LoaderState> state_;
  int64_t largest_;             ///< examples in a batch
  std::vector<int64_t> sizes_;  ///< of each batch
  std::vector<int64_t> wholes_;
  Tensor order_;        ///< (N) i64
  Tensors parameters_;  ///< of each transform, in that order
  Tensor ramp_;         ///< i64: 0, 1, … up to a batch
  Tensor at_;           ///< i64 []: examples behind
};

}  // namespace mica::data
