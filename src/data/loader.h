#pragma once

#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>

#include "mica/data/dataset.h"
#include "mica/data/transforms.h"

namespace mica::data {

struct LoaderOptions {
  int64_t batch = 64;
  std::optional<uint64_t> shuffle = {};  ///< seed of the order; without it, the data set's own
  bool drop_last = false;                ///< an epoch ends before a batch that would be smaller
  int workers = 0;                       ///< threads that prepare batches beside the caller's
  int64_t prefetch = 2;                  ///< batches that they prepare ahead
  Device device = {};
  /// Of each batch's first tensor; their seed is that of the order.
  std::vector<Transform> augment = {};
  /// The whole data set lies on the device, where batches are gathered and transformed without the
  /// host. Workers have nothing to do then.
  bool resident = false;
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

  /// Workers begin no more batches. Whether none is in progress: the destructor does not wait then.
  bool stop();

  /// What is_making asks for; stays when the epoch is moved.
  const void* id() const { return walk_.get(); }
  /// Whether the calling thread makes a batch of that epoch at the moment: it must not wait for
  /// one.
  static bool is_making(const void* id);

 private:
  friend class Loader;
  class Walk;
  explicit Epoch(std::unique_ptr<Walk> walk);
  std::unique_ptr<Walk> walk_;
};

/// Batches of a data set on a device:
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
class Loader {
 public:
  Loader(Dataset dataset, LoaderOptions options = {});

  /// Batches in an epoch.
  int64_t size() const;
  /// Examples in an epoch.
  int64_t examples() const;
  const Dataset& dataset() const;
  const LoaderOptions& options() const;
  /// No walk, feed or copy shares what it is made of.
  bool is_alone() const { return state_.use_count() == 1; }

  /// The batches from `first_batch` on; those before are not prepared.
  Epoch epoch(int64_t epoch, int64_t first_batch = 0) const;

 private:
  friend class Epoch;
  friend class Feed;
  struct State;
  std::shared_ptr<const State> state_;
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
  /// Raises where the loader is not resident.
  explicit Feed(const Loader& loader);

  /// What comes next is this batch of this epoch.
  void start(int64_t epoch, int64_t first_batch = 0);
  /// The next n examples, at most a batch; the caller knows how many are left.
  Batch next(int64_t n) const;

 private:
  std::shared_ptr<const Loader::State> state_;
  Tensor order_;        ///< (N) i64
  Tensors parameters_;  ///< of each transform, in that order
  Tensor ramp_;         ///< i64: 0, 1, … up to a batch
  Tensor at_;           ///< i64 []: examples behind
};

}  // namespace mica::data
