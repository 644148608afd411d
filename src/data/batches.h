#pragma once

#include <cstddef>
#include <iterator>
#include <optional>

#include "mica/data/dataset.h"

namespace mica::data {

struct Batch {
  Tensor x;  ///< (n, C, H, W) f32
  Tensor y;  ///< (n) i64
};

struct BatchOptions {
  int64_t batch = 64;
  std::optional<uint64_t> shuffle = {};  ///< seed of the order; without it, the dataset's own
  int64_t epoch = 0;                     ///< which order of that seed
  Device device = {};
};

/// Walks once over a dataset: `for (const auto& [x, y] : Batches(train, {.shuffle = seed}))`. The
/// order depends on seed, epoch and size alone. The last batch may be smaller.
///
/// Images are gathered some thousand at a time and moved to the device together; batches are views
/// of that, so a device waits for the host only so often.
class Batches {
 public:
  Batches(ImageDataset dataset, const BatchOptions& options);

  /// How many batches there are.
  int64_t size() const;

  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;

    Batch operator*() const;
    Iterator& operator++();
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return at_ >= batches_->dataset_.size(); }

   private:
    friend class Batches;
    explicit Iterator(const Batches& batches) : batches_(&batches) { gather(); }
    void gather();

    const Batches* batches_;
    int64_t at_ = 0;           ///< of the batch's first image, in the order
    int64_t chunk_begin_ = 0;  ///< of what is gathered
    int64_t chunk_end_ = 0;
    Batch chunk_;
  };

  Iterator begin() const { return Iterator(*this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  ImageDataset dataset_;
  BatchOptions options_;
  Tensor order_;  ///< (N) i64
};

}  // namespace mica::data
